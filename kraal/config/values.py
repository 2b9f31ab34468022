"""Types of config values, with Connect's parsing and formatting.

Lists are tuples. Because Java classes are not available in Python, a class is represented by its full name, which a
`Resolve` function returns. Source: Kafka's ConfigDef.parseType and convertToString (4.3.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import final

from typing_extensions import override

Resolve = Callable[[str], str | None]
"""Returns the full class name for a name or alias; None if there is no such class."""


class ConfigType(StrEnum):
    """The type of a key, spelled as in REST responses."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 - the name of a type


@final
class Password:
    """A secret string. Only `value` reveals it; `str`, `repr`, formatting and logs show `[hidden]`.

    Not a subclass of str, because the C code of json and str.join would write the secret.
    """

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    @override
    def __repr__(self) -> str:
        return "[hidden]"

    @override
    def __format__(self, spec: str) -> str:
        return format("[hidden]", spec)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    @override
    def __hash__(self) -> int:
        return hash((Password, self.value))

    def __len__(self) -> int:
        return len(self.value)


_BLANKS = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes: all up to U+0020."""

_LIST_SPACES = " \t\n\x0b\f\r"
"""The white space that is removed around the commas of a list."""
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_MAX_DIGITS = 1000
"""Maximum length of a number, because Python does not parse integers with thousands of digits."""


def trim(text: str) -> str:
    """Trim a string like Java's String.trim."""
    return text.strip(_BLANKS)


def is_blank(text: str | None) -> bool:
    """Return whether a string is None or empty when trimmed."""
    return text is None or not trim(text)


def invalid(name: str, value: object, reason: str) -> str:
    """Return Connect's error message for an invalid value of a key."""
    return f"Invalid value {java_text(value)} for configuration {name}: {reason}"


def java_text(value: object) -> str:
    """Format a value like Java's `String.valueOf`: `null`, `true`, `[a, b]`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(java_text, value))}]"
    return str(value)


def render(value: object) -> str | None:
    """Format a parsed value for REST responses: lists joined by commas, secrets hidden; None stays None."""
    if value is None:
        return None
    if isinstance(value, (tuple, list)):
        return ",".join(map(java_text, value))
    return java_text(value)


def split_list(text: str) -> tuple[str, ...]:
    """Split a comma-separated list like Connect: an empty string has no entries, `a,,b` has an empty entry."""
    trimmed_text = trim(text)
    return tuple(entry.strip(_LIST_SPACES) for entry in trimmed_text.split(",")) if trimmed_text else ()


def parse_value(name: str, raw: str | None, kind: ConfigType, resolve: Resolve | None = None) -> object:
    """Parse the value of a key; None stays None.

    Without `resolve`, class names are not resolved. Raises ValueError with Connect's error message.
    """
    if raw is None:
        return None
    text = trim(raw)
    if kind is ConfigType.CLASS:
        class_name = resolve(text) if resolve is not None else text
        if not class_name:
            raise ValueError(invalid(name, raw, f"Class {raw} could not be found."))
        return class_name
    try:
        return _PARSERS[kind](text)
    except ValueError as exc:
        raise ValueError(invalid(name, raw, str(exc))) from exc


def _parse_boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("Expected value to be either true or false")
    return text.lower() == "true"


def _parse_double(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError("Not a number of type DOUBLE")
    return float(text.rstrip("fFdD") if text[-1] in "fFdD" else text)


def _make_integer_parser(kind: ConfigType, bits: int) -> Callable[[str], int]:
    """Return a parser for signed integers of `bits` bits."""
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        number = int(text) if len(text) < _MAX_DIGITS and _WHOLE_NUMBER.fullmatch(text) else None
        if number is None or not -limit <= number < limit:
            raise ValueError(f"Not a number of type {kind}")
        return number

    return parse


_PARSERS: Mapping[ConfigType, Callable[[str], object]] = {
    ConfigType.STRING: str,
    ConfigType.PASSWORD: Password,
    ConfigType.LIST: split_list,
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.DOUBLE: _parse_double,
    ConfigType.SHORT: _make_integer_parser(ConfigType.SHORT, 16),
    ConfigType.INT: _make_integer_parser(ConfigType.INT, 32),
    ConfigType.LONG: _make_integer_parser(ConfigType.LONG, 64),
}


def as_strings(value: object) -> Sequence[str]:
    """Return a parsed list as strings; an empty sequence for None."""
    return tuple(map(str, value)) if isinstance(value, (tuple, list)) else ()
