"""Checks of one parsed value: what a `Key` takes as `validator`.

A check gets the key's name and the parsed value (None where parsing failed) and returns Connect's sentence,
or None when all is well. Reasons are Connect's own, because clients show and compare them.
Source: ConfigDef's nested validators (4.3.0).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kraal.config.values import as_strings, invalid

Check = Callable[[str, object], str | None]
"""Returns what is wrong with the value of the named key, as a whole sentence; None when nothing is."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A check that also says, for the manual, what it lets pass. Source: a validator's `toString`."""

    allows: str
    """Continues "Valid values: ", without a period."""
    check: Check

    def __call__(self, name: str, value: object) -> str | None:
        """Check a value."""
        return self.check(name, value)


def rule(allows: str) -> Callable[[Check], Rule]:
    """Say what a check lets pass."""
    return lambda check: Rule(allows, check)


def allowed_by(check: Check | None) -> str:
    """Return what a check lets pass, in words; empty where nobody said so."""
    return check.allows if isinstance(check, Rule) else ""


def _listed(texts: tuple[str, ...]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


_FIRST_C1, _LAST_C1, _DELETE_LINE = 0x7F, 0x9F, 0x1F


def all_of(*checks: Check) -> Rule:
    """Return the sentence of the first check that fails."""

    @rule("; ".join(filter(None, map(allowed_by, checks))))
    def check(name: str, value: object) -> str | None:
        return next((text for each in checks if (text := each(name, value)) is not None), None)

    return check


def at_least(minimum: float) -> Rule:
    """Want a number not below `minimum`; no value fails as well."""

    @rule(f"{minimum} or more")
    def check(name: str, value: object) -> str | None:
        if not isinstance(value, (int, float)):
            return invalid(name, None, "Value must be non-null")
        return invalid(name, value, f"Value must be at least {minimum}") if value < minimum else None

    return check


def between(minimum: float, maximum: float) -> Rule:
    """Want a number from `minimum` to `maximum`, both allowed."""

    @rule(f"{minimum} to {maximum}")
    def check(name: str, value: object) -> str | None:
        if isinstance(value, (int, float)) and value > maximum:
            return invalid(name, value, f"Value must be no more than {maximum}")
        return at_least(minimum)(name, value)

    return check


def unless_null(inner: Check) -> Rule:
    """Let no value pass, and check every other."""

    @rule(allowed_by(inner))
    def check(name: str, value: object) -> str | None:
        return None if value is None else inner(name, value)

    return check


def one_of(*allowed: str) -> Rule:
    """Want one of the texts, letter by letter."""

    @rule(_listed(allowed))
    def check(name: str, value: object) -> str | None:
        if value in allowed:
            return None
        return invalid(name, value, f"String must be one of: {', '.join(allowed)}")

    return check


def one_of_ignoring_case(*allowed: str) -> Rule:
    """Want one of the texts in any letter case; `allowed` is shown in its order."""
    upper = {text.upper() for text in allowed}

    @rule(f"{_listed(allowed)}, in any letter case")
    def check(name: str, value: object) -> str | None:
        if isinstance(value, str) and value.upper() in upper:
            return None
        return invalid(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")

    return check


@rule("anything but null")
def non_null(name: str, value: object) -> str | None:
    """Want a value. Source: ConfigDef.NonNullValidator."""
    return invalid(name, None, "entry must be non null") if value is None else None


@rule("a text that is not empty")
def non_empty(name: str, value: object) -> str | None:
    """Want a text that is not empty; no value passes. Source: ConfigDef.NonEmptyString."""
    return invalid(name, value, "String must be non-empty") if value == "" else None


@rule("a text that is not empty and has no control characters")
def clean_name(name: str, value: object) -> str | None:
    """Want a text without control characters that is not empty; no value passes.

    Source: ConfigDef.NonEmptyStringWithoutControlChars.
    """
    if not isinstance(value, str):
        return None
    if not value:
        return invalid(name, value, "String may not be empty")
    found = [
        str(ord(letter))
        for letter in value
        if ord(letter) <= _DELETE_LINE or _FIRST_C1 <= ord(letter) <= _LAST_C1
    ]
    if not found:
        return None
    reason = f"String may not contain control sequences but had the following ASCII chars: {', '.join(found)}"
    return invalid(name, value, reason)


@rule("names, none of them twice")
def unique_aliases(name: str, value: object) -> str | None:
    """Want a list without repetitions, of aliases. Source: ConnectorConfig.aliasValidator."""
    if value is None:
        return non_null(name, value)
    entries = as_strings(value)
    return invalid(name, value, "Duplicate alias provided.") if len(set(entries)) < len(entries) else None


@rule("a list without empty entries, none of them twice")
def distinct_entries(name: str, value: object) -> str | None:
    """Want a list without repetitions and without empty entries. Source: ConfigDef.ValidList (4.3.0)."""
    if value is None:
        return f"Configuration '{name}' values must not be null."
    entries = as_strings(value)
    if len(set(entries)) < len(entries):
        return f"Configuration '{name}' values must not be duplicated."
    return f"Configuration '{name}' values must not be empty." if "" in entries else None


@rule("a regular expression")
def regex(name: str, value: object) -> str | None:
    """Want a regular expression; the detail is Python's. Source: SinkConnectorConfig (RegexValidator)."""
    if value is None:
        return invalid(name, value, "Invalid regex: there is none")
    reason = why_no_regex(str(value))
    return None if reason is None else invalid(name, value, f"Invalid regex: {reason}")


LONGEST_REGEX: Final = 10_000
"""Characters; Python compiles a longer one for seconds."""


def why_no_regex(text: str) -> str | None:
    """Say why a text is no regular expression; None when it is one. Length, numbers and nesting have limits as well."""
    if len(text) > LONGEST_REGEX:
        return f"it has {len(text)} characters, and {LONGEST_REGEX} at most are allowed"
    try:
        re.compile(text)
    except (re.error, OverflowError) as exc:
        return str(exc)
    except RecursionError:
        return "it is nested too deeply"
    return None
