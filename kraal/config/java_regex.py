r"""Java's regular expressions, matched by `kraal.config.patterns`.

Topic names are short and have few kinds of characters, so other differences (lines, Unicode) have no effect.
`kraal.config.regex` translates the syntax; `\G`, `\R`, `\X`, `\N` and sets of Unicode's scripts and blocks are refused.
Source: java.util.regex.Pattern (Java 17).
"""

from __future__ import annotations

import re
from typing import Final

from kraal.config import patterns
from kraal.config.checks import rule
from kraal.config.patterns import Pattern
from kraal.config.regex.translation import translated
from kraal.config.values import invalid

_POSITION: Final = re.compile(r" at position \d+( \(line .*\))?$")


def compiled(text: str, *, ignore_case: bool = False) -> Pattern:
    """Compile a Java regular expression. Raises ValueError with the reason."""
    if (reason := why_refused(text, ignore_case=ignore_case)) is not None:
        raise ValueError(reason)
    return patterns.compiled(text, translated(text, ignore_case=ignore_case))


def why_refused(text: str, *, ignore_case: bool = False) -> str | None:
    """Return why a text is not a valid expression; None if it is valid."""
    if (reason := patterns.why_too_long(text)) is not None:
        return reason
    try:
        python = translated(text, ignore_case=ignore_case)
    except re.error as exc:
        return str(exc)
    reason = patterns.why_refused(python)
    if reason is None or python == text:
        return reason
    return _POSITION.sub("", reason)  # of the translation


@rule("a regular expression")
def java_regex(name: str, value: object) -> str | None:
    """Require a Java regular expression; the error detail is Python's. Source: RegexValidator of the transforms."""
    if value is None:
        return invalid(name, None, "Invalid regex: it is empty")
    reason = why_refused(str(value))
    return None if reason is None else invalid(name, value, f"Invalid regex: {reason}")
