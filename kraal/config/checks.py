"""Checks of single parsed values, for use as `validator` of a `Key`.

A check receives the key's name and the parsed value (None if parsing failed). It returns an error message, or None if
the value is valid. Messages are identical to Connect's, because clients show and compare the messages.
Source: ConfigDef's nested validators (4.3.0).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kraal.config.values import as_strings, invalid

Check = Callable[[str, object], str | None]
"""Returns the error message for the value of the named key, or None if the value is valid."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check with a description of its valid values for the manual. Source: a validator's `toString`."""

    allows: str
    """The text after "Valid values: ", without a period."""
    check: Check

    def __call__(self, name: str, value: object) -> str | None:
        """Check a value."""
        return self.check(name, value)


def rule(allows: str) -> Callable[[Check], Rule]:
    """Return a decorator that adds a description of the valid values to a check."""
    return lambda check: Rule(allows, check)


def describe_valid_values(check: Check | None) -> str:
    """Return the description of a check's valid values, or an empty string if the check has no description."""
    return check.allows if isinstance(check, Rule) else ""


def _format_choices(choices: tuple[str, ...]) -> str:
    return ", ".join(f"`{choice}`" if choice else "empty" for choice in choices)


_LAST_C0, _DELETE, _LAST_C1 = 0x1F, 0x7F, 0x9F


def all_of(*checks: Check) -> Rule:
    """Require that all checks pass; report the first error."""

    @rule("; ".join(filter(None, map(describe_valid_values, checks))))
    def check(name: str, value: object) -> str | None:
        return next((error for nested in checks if (error := nested(name, value)) is not None), None)

    return check


def at_least(minimum: float) -> Rule:
    """Require a number of at least `minimum`; null is invalid."""

    @rule(f"{minimum} or more")
    def check(name: str, value: object) -> str | None:
        if not isinstance(value, (int, float)):
            return invalid(name, None, "Value must be non-null")
        return invalid(name, value, f"Value must be at least {minimum}") if value < minimum else None

    return check


def between(minimum: float, maximum: float) -> Rule:
    """Require a number from `minimum` to `maximum`, inclusive."""

    @rule(f"{minimum} to {maximum}")
    def check(name: str, value: object) -> str | None:
        if isinstance(value, (int, float)) and value > maximum:
            return invalid(name, value, f"Value must be no more than {maximum}")
        return at_least(minimum)(name, value)

    return check


def unless_null(inner: Check) -> Rule:
    """Accept null, and apply `inner` to all other values."""

    @rule(describe_valid_values(inner))
    def check(name: str, value: object) -> str | None:
        return None if value is None else inner(name, value)

    return check


def one_of(*allowed: str) -> Rule:
    """Require one of the strings, case-sensitively."""

    @rule(_format_choices(allowed))
    def check(name: str, value: object) -> str | None:
        if value in allowed:
            return None
        return invalid(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_ignoring_case(*allowed: str) -> Rule:
    """Require one of the strings, ignoring case. Errors list the allowed strings in the given order."""
    uppercase_values = {text.upper() for text in allowed}

    @rule(f"{_format_choices(allowed)}, in any letter case")
    def check(name: str, value: object) -> str | None:
        if isinstance(value, str) and value.upper() in uppercase_values:
            return None
        return invalid(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")

    return check


@rule("anything but null")
def non_null(name: str, value: object) -> str | None:
    """Require a value. Source: ConfigDef.NonNullValidator."""
    return invalid(name, None, "entry must be non null") if value is None else None


@rule("a non-empty string")
def non_empty(name: str, value: object) -> str | None:
    """Require a non-empty string; null is valid. Source: ConfigDef.NonEmptyString."""
    return invalid(name, value, "String must be non-empty") if value == "" else None


@rule("a non-empty string without control characters")
def clean_name(name: str, value: object) -> str | None:
    """Require a non-empty string without control characters; null is valid.

    Source: ConfigDef.NonEmptyStringWithoutControlChars.
    """
    if not isinstance(value, str):
        return None
    if not value:
        return invalid(name, value, "String may not be empty")
    control_characters = [
        str(ord(char)) for char in value if ord(char) <= _LAST_C0 or _DELETE <= ord(char) <= _LAST_C1
    ]
    if not control_characters:
        return None
    codes = ", ".join(control_characters)
    reason = f"String may not contain control sequences but had the following ASCII chars: {codes}"
    return invalid(name, value, reason)


@rule("names without duplicates")
def unique_aliases(name: str, value: object) -> str | None:
    """Require a list of distinct aliases. Source: ConnectorConfig.aliasValidator."""
    if value is None:
        return non_null(name, value)
    entries = as_strings(value)
    return invalid(name, value, "Duplicate alias provided.") if len(set(entries)) < len(entries) else None


@rule("a list without empty or duplicate entries")
def distinct_entries(name: str, value: object) -> str | None:
    """Require a list of distinct, non-empty entries. Source: ConfigDef.ValidList (4.3.0)."""
    if value is None:
        return f"Configuration '{name}' values must not be null."
    entries = as_strings(value)
    if len(set(entries)) < len(entries):
        return f"Configuration '{name}' values must not be duplicated."
    return f"Configuration '{name}' values must not be empty." if "" in entries else None
