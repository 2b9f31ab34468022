"""Tokenizer for SQL expressions. Does not use Spark, so that configs can be validated without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

MAX_LENGTH: Final = 10_000
"""Maximum total number of characters of all expressions."""


class SqlError(ValueError):
    """Raised if an expression is invalid. Users see the message."""


class Kind(Enum):
    """The kind of a token."""

    NAME = "name"
    QUOTED = "quoted name"
    NUMBER = "number"
    TEXT = "text"
    SYMBOL = "symbol"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `text` is the content without quotes and escapes."""

    kind: Kind
    text: str
    at: int
    """Position of the first character, starting at 1."""

    def is_symbol(self, *symbols: str) -> bool:
        """Return whether the token is one of these symbols."""
        return self.kind is Kind.SYMBOL and self.text in symbols

    def is_word(self, *words: str) -> bool:
        """Return whether the token is one of these SQL keywords; `words` must be in upper case."""
        return self.kind is Kind.NAME and self.text.upper() in words


_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDlL]?(?![\w.]))
    |(?P<name>[A-Za-z_]\w*)
    |`(?P<quoted>(?:[^`]|``)+)`
    |'(?P<single>(?:[^'\\]|''|\\.)*)'
    |"(?P<double>(?:[^"\\]|""|\\.)*)"
    |(?P<symbol><>|!=|<=|>=|==|\|\||[-+*/%(),.=<>])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


def tokenize(text: str) -> list[Token]:
    """Split a text into tokens; the last token has the kind END. Raises SqlError."""
    if len(text) > MAX_LENGTH:
        raise SqlError(f"the expressions have {len(text)} characters; at most {MAX_LENGTH} are allowed")
    result: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SqlError(f"{text[at : at + 10]!r} at character {at + 1} is not part of an expression")
        token = _make_token(match, at + 1)
        if token is not None:
            result.append(token)
        at = match.end()
    return [*result, Token(Kind.END, "", len(text) + 1)]


def _make_token(match: re.Match[str], at: int) -> Token | None:
    text = str(match[match.lastgroup or 0])
    match match.lastgroup:
        case "blank":
            return None
        case "number":
            return Token(Kind.NUMBER, text, at)
        case "name":
            return Token(Kind.NAME, text, at)
        case "quoted":
            return Token(Kind.QUOTED, text.replace("``", "`"), at)
        case "single":
            return Token(Kind.TEXT, _unescape(text, "'"), at)
        case "double":
            return Token(Kind.TEXT, _unescape(text, '"'), at)
        case _:
            return Token(Kind.SYMBOL, text, at)


def _unescape(text: str, quote: str) -> str:
    r"""Resolve escapes like Spark: `\%` and `\_` are kept for LIKE; other characters lose the backslash."""

    def replace_escape(match: re.Match[str]) -> str:
        escape = match[0]
        if escape == quote * 2:
            return quote
        return escape if escape[1] in "%_" else _ESCAPES.get(escape[1], escape[1])

    return re.sub(rf"{quote}{quote}|\\.", replace_escape, text, flags=re.DOTALL)
