r"""Java regular expressions, matched by `kraal.config.patterns`.

`kraal.config.regex` translates the syntax. `\G`, `\R`, `\X`, `\N` and the Unicode scripts and blocks are rejected.
Other differences (line terminators, Unicode) have no effect, because topic names contain only ASCII letters, digits and
punctuation.
Source: java.util.regex.Pattern (Java 17).
"""

from __future__ import annotations

import re
from typing import Final

from kraal.config import patterns
from kraal.config.checks import rule
from kraal.config.patterns import Pattern
from kraal.config.regex.translation import translate
from kraal.config.values import invalid

_POSITION: Final = re.compile(r" at position \d+( \(line .*\))?$")


def compile_pattern(expression: str, *, ignore_case: bool = False) -> Pattern:
    """Compile a Java regular expression. Raises ValueError if it is invalid."""
    if (reason := patterns.check_length(expression)) is not None:
        raise ValueError(reason)
    try:
        translation = translate(expression, ignore_case=ignore_case)
    except re.error as exc:
        raise ValueError(str(exc)) from exc
    try:
        return patterns.compile_pattern(expression, translation)
    except ValueError as exc:
        # Positions refer to the translation, which the user does not see.
        raise ValueError(str(exc) if translation == expression else _POSITION.sub("", str(exc))) from exc


def find_pattern_error(expression: str) -> str | None:
    """Return the reason why an expression is not valid, or None if it is valid."""
    try:
        compile_pattern(expression)
    except ValueError as exc:
        return str(exc)
    return None


@rule("a regular expression")
def java_regex(name: str, value: object) -> str | None:
    """Require a Java regular expression; the error detail is Python's. Source: RegexValidator of the transforms."""
    if value is None:
        return invalid(name, None, "Invalid regex: it is empty")
    reason = find_pattern_error(str(value))
    return None if reason is None else invalid(name, value, f"Invalid regex: {reason}")
