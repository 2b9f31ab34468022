"""Character sets with Java's names and replacement rules. Source: String.getBytes, String(byte[], charset)."""

from __future__ import annotations

import re
from typing import Final

CHARSETS: Final = {
    "utf-8": "UTF-8",
    "ascii": "US-ASCII",
    "iso8859-1": "ISO-8859-1",
    "utf-16": "UTF-16",
    "utf-16-be": "UTF-16BE",
    "utf-16-le": "UTF-16LE",
    "utf-32": "UTF-32",
}
"""Names of charsets in Java and Spark by Python's canonical name."""

UNENCODABLE: Final = {"US-ASCII": r"[^\x00-\x7F]", "ISO-8859-1": r"[^\x00-\xFF]"}
"""Regular expressions of the characters that a charset cannot encode."""

_BYTE_ORDER_MARKS: Final = {
    "UTF-16": ((b"\xfe\xff", "utf-16-be"), (b"\xff\xfe", "utf-16-le")),
    "UTF-32": ((b"\0\0\xfe\xff", "utf-32-be"), (b"\xff\xfe\0\0", "utf-32-le")),
}
"""Byte order marks at the start of a text, big endian first, and their codecs."""

_SURROGATES: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
"""Encoded unpaired surrogates; Java replaces each of them with one character."""


def encode_text(text: str, charset: str) -> bytes:
    """Encode a text; `?` replaces unencodable characters. Only UTF-16 gets a byte order mark."""
    if charset == "UTF-8":
        return text.encode("utf-8", "replace")
    if charset == "UTF-16":
        return b"\xfe\xff" + text.encode("utf-16-be", "replace")
    return text.encode("utf-32-be" if charset == "UTF-32" else charset, "replace")


def decode_text(data: bytes, charset: str) -> str:
    """Decode bytes; U+FFFD replaces invalid sequences."""
    if charset == "UTF-8":
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return _SURROGATES.sub(b"\xff", data).decode("utf-8", "replace")
    codec = charset
    for mark, mark_codec in _BYTE_ORDER_MARKS.get(charset, ()):
        codec = codec if codec != charset else mark_codec
        if data.startswith(mark):
            data, codec = data[len(mark) :], mark_codec
            break
    return data.decode(codec, "replace")
