r"""Reads the part of YAML that people write configs in; anything else is an error, never another meaning.

Block mappings and sequences, plain, quoted and block (`|`, `>`) scalars, comments, several documents. Not: anchors,
aliases, tags, plain scalars over several lines, and flow style that is not JSON. No YAML library is a dependency of
Kraal's, and connector files need no more. What it reads, every YAML parser reads alike.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Plain = Callable[[str], Any]
"""What a plain scalar means; the empty one is a missing value."""

_KEY = re.compile(r"""([^\s'"\[\]{}&*!|>@`%#,?:-][^#]*?|[-?:][^\s#][^#]*?)\s*:(?:[ \t]+(.*)|$)""")
_LINE_END = re.compile(r"\r\n|\r|\n")
_COMMENT = re.compile(r"(?:^|[ \t])#.*$")
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_PLAIN = "&*!|>@`%{}[],?"
_ESCAPES = {
    "0": "\0",
    "a": "\a",
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "v": "\v",
    "f": "\f",
    "r": "\r",
    "e": "\x1b",
    " ": " ",
    '"': '"',
    "/": "/",
    "\\": "\\",
}
_HEX = {"x": 2, "u": 4, "U": 8}


class YamlError(ValueError):
    """A text is not YAML, or more of it than is read here; the message begins with the line."""


def as_written(text: str) -> str | None:
    """Read a plain scalar as Connect's configs want it: as the text that it is, or null."""
    return None if text in ("", "~", "null", "Null", "NULL") else text


def typed(text: str) -> object:
    """Read a plain scalar by YAML's core schema: null, booleans, decimal numbers, texts."""
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return as_written(text)


def read_yaml(text: str, plain: Plain) -> list[Any]:
    """Read all documents that hold anything. Raises YamlError."""
    documents: list[Any] = []
    lines: list[tuple[int, str]] = []
    split = _LINE_END.split(text)
    for number, line in enumerate([*(split if split[-1] else split[:-1]), "---"], 1):
        marker = line.split("#")[0].rstrip() if line.startswith(("---", "...")) else line
        if marker in ("---", "..."):
            documents += _documents(lines, plain)
            lines = []
        elif line.startswith("--- "):
            raise YamlError(f"line {number}: a document begins on the line after ---")
        elif not (line.startswith("%") and not lines):  # a directive, such as %YAML 1.2
            lines.append((number, line))
    return documents


def _documents(lines: list[tuple[int, str]], plain: Plain) -> list[Any]:
    reader = _Reader(lines, plain)
    if reader.peek() is None:
        return []
    try:
        return [reader.document()]
    except RecursionError as exc:
        raise YamlError("line 1: it is nested too deeply") from exc


@dataclass(slots=True)
class _Line:
    number: int
    indent: int
    text: str


class _Reader:
    """Reads one document, line by line."""

    def __init__(self, lines: list[tuple[int, str]], plain: Plain) -> None:
        self._lines = lines
        self._plain = plain
        self._decoder = json.JSONDecoder(parse_int=plain, parse_float=plain)
        self._at = 0
        self._replaced: _Line | None = None
        """What stands for the current line: the rest of it behind a `- `."""

    def peek(self) -> _Line | None:
        """Return the next line that holds anything."""
        if self._replaced is not None:
            return self._replaced
        while self._at < len(self._lines):
            number, raw = self._lines[self._at]
            text = raw.strip(" ")
            if text.strip() and not text.startswith("#"):
                if text.startswith("\t"):
                    raise YamlError(f"line {number}: indented by a tab; YAML takes spaces only")
                return _Line(number, len(raw) - len(raw.lstrip(" ")), text.rstrip(" \t"))
            self._at += 1
        return None

    def _advance(self) -> None:
        self._replaced = None
        self._at += 1

    def document(self) -> Any:
        line = self.peek()
        assert line is not None  # noqa: S101 - looked at before
        value = self._block(line)
        if (left := self.peek()) is not None:
            raise YamlError(f"line {left.number}: this is not indented as what stands above it")
        return value

    def _block(self, line: _Line) -> Any:
        if _is_item(line.text):
            return self._sequence(line.indent)
        if self._key(line) is not None:
            return self._mapping(line.indent)
        self._advance()
        return self._scalar(line.text, line.number)

    def _mapping(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self.peek()) is not None and line.indent == indent and not _is_item(line.text):
            entry = self._key(line)
            if entry is None:
                raise YamlError(f"line {line.number}: there is no `key: value` here")
            key, rest = entry
            if key in found:
                raise YamlError(f"line {line.number}: the key {key} is there twice")
            self._advance()
            found[key] = self._value(rest, line, items_at=indent)
        self._refuse_deeper(indent)
        return found

    def _sequence(self, indent: int) -> list[Any]:
        found: list[Any] = []
        while (line := self.peek()) is not None and line.indent == indent and _is_item(line.text):
            rest = line.text[1:].lstrip(" ")
            inner = _Line(line.number, indent + len(line.text) - len(rest), rest)
            if rest and not rest.startswith("#") and (_is_item(rest) or self._key(inner) is not None):
                self._replaced = inner
                found.append(self._block(inner))
            else:
                self._advance()
                found.append(self._value(rest, line, items_at=indent + 1))
        self._refuse_deeper(indent)
        return found

    def _refuse_deeper(self, indent: int) -> None:
        line = self.peek()
        if line is not None and line.indent > indent:
            raise YamlError(f"line {line.number}: indented more than what stands above it")

    def _key(self, line: _Line) -> tuple[str, str] | None:
        """Split `key: rest`; None when the line is none."""
        if line.text[0] in "\"'":
            end = _end_of_quotes(line.text, line.number)
            rest = line.text[end:].lstrip()
            if not rest.startswith(":") or rest[1:2] not in ("", " ", "\t"):
                return None
            return _unquoted(line.text[:end], line.number), rest[1:].strip(" \t")
        match = _KEY.fullmatch(line.text)
        return None if match is None else (match[1], (match[2] or "").strip(" \t"))

    def _value(self, rest: str, line: _Line, *, items_at: int) -> Any:
        """Read what follows a key or a dash: on its line, or indented below it."""
        if rest[:1] in ("|", ">"):
            return self._text_block(rest, line)
        if rest and not rest.startswith("#"):
            return self._scalar(rest, line.number)
        below = self.peek()
        if below is not None and (
            below.indent > line.indent or (below.indent == items_at and _is_item(below.text))
        ):
            return self._block(below)
        return self._plain("")

    def _scalar(self, text: str, number: int) -> Any:
        if text[0] in "\"'":
            end = _end_of_quotes(text, number)
            if _COMMENT.sub("", text[end:]).strip():
                raise YamlError(f"line {number}: something follows the closing quote")
            return _unquoted(text[:end], number)
        if text[0] in "{[":
            return self._json(text, number)
        plain = _COMMENT.sub("", text).strip(" \t")
        if text[0] in _NOT_PLAIN or plain in ("-", "?", ":"):
            raise YamlError(f"line {number}: a value that begins with {text[0]} has to be quoted")
        if ": " in plain or plain.endswith(":"):
            raise YamlError(f"line {number}: a value with a colon in it has to be quoted")
        try:
            return self._plain(plain)
        except ValueError as exc:  # Python reads no number of thousands of digits
            raise YamlError(f"line {number}: {exc}") from exc

    def _json(self, text: str, number: int) -> Any:
        try:
            value, end = self._decoder.raw_decode(text)
        except ValueError as exc:
            raise YamlError(
                f"line {number}: what is in brackets has to be JSON, on one line ({exc})"
            ) from exc
        if _COMMENT.sub("", text[end:]).strip():
            raise YamlError(f"line {number}: something follows the closing bracket")
        return value

    def _text_block(self, header: str, line: _Line) -> str:
        """Read a literal or a folded text. Its indentation is that of its first line."""
        style = _COMMENT.sub("", header).strip()
        if style not in ("|", "|-", "|+", ">", ">-", ">+"):
            raise YamlError(f"line {line.number}: {style} is not read here; | and > are, with - or +")
        raw: list[str] = []
        indent = 0
        while self._at < len(self._lines):
            text = self._lines[self._at][1]
            depth = len(text) - len(text.lstrip(" "))
            if text.strip(" "):
                indent = indent or depth
                if depth <= line.indent or depth < indent:
                    break
            raw.append(text)
            self._at += 1
        kept = [text[indent:] for text in raw]
        while kept and not kept[-1]:
            kept.pop()
        ends = "\n" * (len(raw) - len(kept)) if style.endswith("+") else ""
        body = _folded(kept, line.number) if style[0] == ">" else "\n".join(kept)
        return body + ("" if style.endswith("-") or not kept else "\n") + ends


def _folded(lines: list[str], number: int) -> str:
    """Join lines by spaces; an empty line is a line end."""
    text = ""
    for line in lines:
        if line.startswith((" ", "\t")):
            raise YamlError(f"line {number}: indented lines in a folded text are not read here; use |")
        joint = "" if not text or text.endswith("\n") else " "
        text += joint + line if line else "\n"
    return text


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _end_of_quotes(text: str, number: int) -> int:
    """Return where a quoted scalar at the beginning of `text` ends."""
    pattern = r'"(?:[^"\\]|\\.)*"' if text[0] == '"' else r"'(?:[^']|'')*'"
    match = re.match(pattern, text)
    if match is None:
        raise YamlError(f"line {number}: a quote is not closed on its line")
    return match.end()


def _unquoted(text: str, number: int) -> str:
    if text[0] == "'":
        return text[1:-1].replace("''", "'")

    def unescaped(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in _HEX:
            if len(code) != 1 + _HEX[code[0]] or int(code[1:], 16) > sys.maxunicode:
                raise YamlError(f"line {number}: \\{code} is no character")
            return chr(int(code[1:], 16))
        if code not in _ESCAPES:
            raise YamlError(f"line {number}: \\{code} is no escape of YAML's")
        return _ESCAPES[code]

    body = re.sub(r"\\(x[0-9a-fA-F]{0,2}|u[0-9a-fA-F]{0,4}|U[0-9a-fA-F]{0,8}|.)", unescaped, text[1:-1])
    # JSON writes characters beyond 16 bits as two halves.
    return body.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
