r"""Tokenizer that splits the text of a value at its delimiters. Source: Values.Parser (Kafka 4.4.0)."""

from __future__ import annotations

from typing import Final

_DELIMITERS: Final = ':,{}[]"'
BLANK: Final = "".join(map(chr, range(33)))
"""The characters that Java's `trim` removes."""


class Tokens:
    """A position in a text and, after a lookahead, the next token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._seen: str | None = None

    def mark(self) -> int:
        """Return the position of the next token."""
        return self._at - len(self._seen or "")

    def rewind(self, position: int) -> None:
        """Return to a marked position."""
        self._at, self._seen = position, None

    def has_next(self) -> bool:
        """Return whether there is another token."""
        return self._seen is not None or self._at < len(self.text)

    def next(self) -> str:
        """Return the next token."""
        token = self._cut() if self._seen is None else self._seen
        self._seen = None
        return token

    def several(self, count: int) -> str | None:
        """Consume `count` tokens and return their text; None, without consuming any, if there are fewer."""
        start = self.mark()
        for _ in range(count):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._at]

    def take(self, expected: str) -> bool:
        """Consume the next token that is not blank if it is `expected`, and return whether it was."""
        if self._seen is None:
            if self._at >= len(self.text):
                return False
            self._seen = self._cut()
        while not self._seen.strip(BLANK) and self._at < len(self.text):
            self._seen = self._cut()
        if self._seen.strip(BLANK) != expected:
            return False
        self._seen = None
        return True

    def _cut(self) -> str:
        start = self._at
        escaped = False
        while self._at < len(self.text):
            letter = self.text[self._at]
            if letter in _DELIMITERS and not escaped:
                self._at += start == self._at
                break
            escaped = letter == "\\" and not escaped
            self._at += 1
        return self.text[start : self._at]
