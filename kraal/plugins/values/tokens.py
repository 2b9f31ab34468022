"""Tokenizer that splits the text of a value at its delimiters. Source: Values.Parser (Kafka 4.4.0)."""

from __future__ import annotations

from typing import Final

_DELIMITERS: Final = ':,{}[]"'
BLANK: Final = "".join(map(chr, range(33)))
"""The characters that Java's `trim` removes."""


class Tokens:
    """Iterates over the tokens of a text, with lookahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._position = 0
        self._lookahead: str | None = None

    def mark(self) -> int:
        """Return the position of the next token."""
        return self._position - len(self._lookahead or "")

    def rewind(self, position: int) -> None:
        """Return to a marked position."""
        self._position, self._lookahead = position, None

    def has_next(self) -> bool:
        """Return whether there is another token."""
        return self._lookahead is not None or self._position < len(self.text)

    def next(self) -> str:
        """Return the next token."""
        token = self._read() if self._lookahead is None else self._lookahead
        self._lookahead = None
        return token

    def take_many(self, count: int) -> str | None:
        """Consume `count` tokens and return their text. If there are fewer tokens, consume none and return None."""
        start = self.mark()
        for _ in range(count):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._position]

    def take(self, expected: str) -> bool:
        """Consume the next non-blank token if it equals `expected`. Return whether a token was consumed."""
        if self._lookahead is None:
            if self._position >= len(self.text):
                return False
            self._lookahead = self._read()
        while not self._lookahead.strip(BLANK) and self._position < len(self.text):
            self._lookahead = self._read()
        if self._lookahead.strip(BLANK) != expected:
            return False
        self._lookahead = None
        return True

    def _read(self) -> str:
        start = self._position
        is_escaped = False
        while self._position < len(self.text):
            char = self.text[self._position]
            if char in _DELIMITERS and not is_escaped:
                self._position += start == self._position
                break
            is_escaped = char == "\\" and not is_escaped
            self._position += 1
        return self.text[start : self._position]
