"""Tokenizer for .proto texts. Source: the Protocol Buffers language specification, lexical elements."""

from __future__ import annotations

import re
from typing import Final

from kraal.converters.protobuf.model import ProtoInvalid

_TOKEN: Final = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<symbol>[{}()\[\]<>;:,=./+-])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX][0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL
)
_CHARS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Tokens:
    """The tokens of a text, with a read position."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ProtoInvalid(f"line {self._get_line_number(at)}: unexpected character {text[at]!r}")
            kind = match.lastgroup or ""
            if kind != "space":
                self._tokens.append((kind, match.group(), at))
            at = match.end()
        self._index = 0

    def _get_line_number(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    @property
    def kind(self) -> str:
        """The kind of the next token: text, number, word or symbol; empty at the end."""
        return self._tokens[self._index][0] if self._index < len(self._tokens) else ""

    @property
    def next(self) -> str:
        """The next token, without consuming it; empty at the end."""
        return self._tokens[self._index][1] if self._index < len(self._tokens) else ""

    def peek(self, ahead: int) -> str:
        """Return the token `ahead` positions after the next one; empty past the end."""
        at = self._index + ahead
        return self._tokens[at][1] if at < len(self._tokens) else ""

    def take(self) -> str:
        """Consume and return the next token. Raises ProtoInvalid at the end."""
        if self._index >= len(self._tokens):
            raise ProtoInvalid("unexpected end of text")
        self._index += 1
        return self._tokens[self._index - 1][1]

    def skip(self, word: str) -> bool:
        """Consume the next token if it is `word`. Return whether a token was consumed."""
        if self.next == word and self.kind != "text":
            self._index += 1
            return True
        return False

    def expect(self, word: str) -> None:
        """Consume the next token, which must be `word`. Raises ProtoInvalid."""
        if not self.skip(word):
            raise self.unexpected(repr(word))

    def unexpected(self, expected: str) -> ProtoInvalid:
        """Return an error with the expected token, the actual token and its line."""
        if not self.next:
            return ProtoInvalid(f"unexpected end of text: expected {expected}")
        return ProtoInvalid(
            f"line {self._get_line_number(self._tokens[self._index][2])}: expected {expected}, got {self.next!r}"
        )

    def name(self) -> str:
        """Consume and return a name. Raises ProtoInvalid."""
        if self.kind != "word":
            raise self.unexpected("a name")
        return self.take()

    def full_name(self) -> str:
        """Consume and return a dotted name. Raises ProtoInvalid."""
        name = "." if self.skip(".") else ""
        name += self.name()
        while self.skip("."):
            name += f".{self.name()}"
        return name

    def text(self) -> str:
        """Consume adjacent string literals and return their concatenation. Raises ProtoInvalid."""
        if self.kind != "text":
            raise self.unexpected("a string")
        text = ""
        while self.kind == "text":
            text += _ESCAPE.sub(_unescape, self.take()[1:-1])
        return text

    def integer(self) -> int:
        """Consume and return an integer. Raises ProtoInvalid."""
        is_negative = self.skip("-")
        if self.kind != "number":
            raise self.unexpected("an integer")
        text = self.next
        try:
            is_octal = len(text) > 1 and text[0] == "0" and text[1] not in "xX"
            number = int(text, 8 if is_octal else 0)
        except ValueError:
            raise self.unexpected("an integer") from None
        self.take()
        return -number if is_negative else number


def _unescape(match: re.Match[str]) -> str:
    escape = match.group()[1:]
    if escape[0] in "xX":
        return chr(int(escape[1:], 16))
    if escape[0] in "uU":
        return chr(int(escape[1:], 16))
    if escape[0] in "01234567":
        return chr(int(escape, 8) & 0xFF)
    return _CHARS.get(escape, escape)
