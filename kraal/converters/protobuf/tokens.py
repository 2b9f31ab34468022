"""The words of a .proto text. Source: the Protocol Buffers language specification, lexical elements."""

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
  | (?P<sign>[{}()\[\]<>;:,=./+-])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(
    r"\\(?:[xX][0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL
)
_CHARS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Tokens:
    """A text's words, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ProtoInvalid(f"line {self._line(at)}: {text[at]!r} has no meaning here")
            kind = match.lastgroup or ""
            if kind != "space":
                self._found.append((kind, match.group(), at))
            at = match.end()
        self._at = 0

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1

    @property
    def kind(self) -> str:
        """What the next word is: text, number, word or sign; empty at the end."""
        return self._found[self._at][0] if self._at < len(self._found) else ""

    @property
    def next(self) -> str:
        """The next word, which stays the next one."""
        return self._found[self._at][1] if self._at < len(self._found) else ""

    def peek(self, ahead: int) -> str:
        """Return a word that comes later."""
        at = self._at + ahead
        return self._found[at][1] if at < len(self._found) else ""

    def take(self) -> str:
        """Return the next word and go on. Raises ProtoInvalid at the end."""
        if self._at >= len(self._found):
            raise ProtoInvalid("the text ends where more is needed")
        self._at += 1
        return self._found[self._at - 1][1]

    def skip(self, word: str) -> bool:
        """Go on if the next word is this one, and tell whether it is."""
        if self.next == word and self.kind != "text":
            self._at += 1
            return True
        return False

    def need(self, word: str) -> None:
        """Go on past a word. Raises ProtoInvalid for another one."""
        if not self.skip(word):
            raise self.wrong(f"{word!r} is needed")

    def wrong(self, what: str) -> ProtoInvalid:
        """Return an error that names the next word and its line."""
        if not self.next:
            return ProtoInvalid(f"the text ends, and {what}")
        return ProtoInvalid(
            f"line {self._line(self._found[self._at][2])}: {what}, and there is {self.next!r}"
        )

    def word(self) -> str:
        """Return the next word, which is a name. Raises ProtoInvalid."""
        if self.kind != "word":
            raise self.wrong("a name is needed")
        return self.take()

    def full_name(self) -> str:
        """Return a name with dots. Raises ProtoInvalid."""
        name = "." if self.skip(".") else ""
        name += self.word()
        while self.skip("."):
            name += f".{self.word()}"
        return name

    def text(self) -> str:
        """Return a text, of which several may follow one another. Raises ProtoInvalid."""
        if self.kind != "text":
            raise self.wrong("a text is needed")
        found = ""
        while self.kind == "text":
            found += _ESCAPE.sub(_unescaped, self.take()[1:-1])
        return found

    def whole(self) -> int:
        """Return a whole number. Raises ProtoInvalid."""
        negative = self.skip("-")
        if self.kind != "number":
            raise self.wrong("a whole number is needed")
        text = self.next
        try:
            octal = len(text) > 1 and text[0] == "0" and text[1] not in "xX"
            found = int(text, 8 if octal else 0)
        except ValueError:
            raise self.wrong("a whole number is needed") from None
        self.take()
        return -found if negative else found


def _unescaped(match: re.Match[str]) -> str:
    said = match.group()[1:]
    if said[0] in "xX":
        return chr(int(said[1:], 16))
    if said[0] in "uU":
        return chr(int(said[1:], 16))
    if said[0] in "01234567":
        return chr(int(said, 8) & 0xFF)
    return _CHARS.get(said, said)
