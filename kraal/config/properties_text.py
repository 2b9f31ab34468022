"""Parser for the text of Java properties files, compatible with Java.

Source: java.util.Properties.load, LineReader and loadConvert (JDK 17); golden files are in `tests/golden/config`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_LINE: Final = re.compile(r"[ \t\f]*+([^\r\n]*+)(\r\n|\r|\n|\Z)")
_ENTRY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*+)[ \t\f]*+[=:]?+[ \t\f]*+(.*+)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "r": "\r", "n": "\n", "f": "\f"}
_SURROGATES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def parse(text: str) -> dict[str, str]:
    r"""Return the entries; the last of duplicate keys wins. Raises ValueError for an invalid `\u` escape."""
    return dict(_parse_entry(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the logical lines, without blank lines and comments. A backslash at the end continues a line."""
    pieces: list[str] = []
    for match in _LINE.finditer(text):
        piece, end = match.groups()
        if not pieces and piece[:1] in {"", "#", "!"}:
            continue
        is_continued = (len(piece) - len(piece.rstrip("\\"))) % 2 == 1
        if content := piece[:-1] if is_continued else piece:
            pieces.append(content)
        if is_continued and match.end() < len(text):
            continue
        line = "".join(pieces)
        if is_continued and end == "\r\n" and not line:
            return
        yield line
        pieces.clear()


def _parse_entry(line: str) -> tuple[str, str]:
    match = _ENTRY.fullmatch(line)
    assert match is not None  # noqa: S101 - the expression matches every text
    return _unescape(match[1]), _unescape(match[2])


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _SURROGATES.sub(_join_surrogates, _ESCAPE.sub(_unescape_character, text))


def _unescape_character(escape: re.Match[str]) -> str:
    if escape[1] is not None:
        return chr(int(escape[1], 16))
    if escape[2] == "u":
        raise ValueError(f"malformed \\uxxxx encoding: {escape.string[escape.start() : escape.start() + 6]}")
    return _CONTROLS.get(escape[2], escape[2])


def _join_surrogates(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")
