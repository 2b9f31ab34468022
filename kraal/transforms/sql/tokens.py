"""The words of an expression in SQL. No Spark, no values: checked wherever a config is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

LONGEST: Final = 10_000
"""Characters of all expressions together."""


class SqlError(ValueError):
    """An expression is not accepted; the text is a sentence for who wrote it."""


class Kind(Enum):
    """What a token is."""

    NAME = "name"
    QUOTED = "quoted name"
    NUMBER = "number"
    TEXT = "text"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One word; `text` is what stands for it, without quotes and escapes."""

    kind: Kind
    text: str
    at: int
    """Its first character, from 1."""

    def is_sign(self, *signs: str) -> bool:
        """Tell whether it is one of these signs."""
        return self.kind is Kind.SIGN and self.text in signs

    def is_word(self, *words: str) -> bool:
        """Tell whether it is one of these words of SQL's, which are in upper case here."""
        return self.kind is Kind.NAME and self.text.upper() in words


_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDlL]?(?![\w.]))
    |(?P<name>[A-Za-z_]\w*)
    |`(?P<quoted>(?:[^`]|``)+)`
    |'(?P<single>(?:[^'\\]|''|\\.)*)'
    |"(?P<double>(?:[^"\\]|""|\\.)*)"
    |(?P<sign><>|!=|<=|>=|==|\|\||[-+*/%(),.=<>])""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "Z": "\x1a"}


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text, the last of kind END. Raises SqlError."""
    if len(text) > LONGEST:
        raise SqlError(f"the expressions have {len(text)} characters; {LONGEST} is the most")
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SqlError(f"{text[at : at + 10]!r} at character {at + 1} is no part of an expression")
        token = _token(match, at + 1)
        if token is not None:
            found.append(token)
        at = match.end()
    return [*found, Token(Kind.END, "", len(text) + 1)]


def _token(match: re.Match[str], at: int) -> Token | None:
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
            return Token(Kind.TEXT, _unescaped(text, "'"), at)
        case "double":
            return Token(Kind.TEXT, _unescaped(text, '"'), at)
        case _:
            return Token(Kind.SIGN, text, at)


def _unescaped(text: str, quote: str) -> str:
    r"""Take the escapes out as Spark does: `\%` and `\_` stay, for LIKE; other letters stand for themselves."""

    def one(match: re.Match[str]) -> str:
        found = match[0]
        if found == quote * 2:
            return quote
        return found if found[1] in "%_" else _ESCAPES.get(found[1], found[1])

    return re.sub(rf"{quote}{quote}|\\.", one, text, flags=re.DOTALL)
