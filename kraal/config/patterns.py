r"""Safe validation and matching of user-defined regular expressions.

A backtracking engine can run for hours on an expression such as `(\w+)+X`. Python's `re` holds the GIL while matching,
which blocks heartbeats and REST, first on this worker and then on the worker that takes over. All regular expressions
in configs and requests are therefore checked and matched here:

- An expression must have at most 10,000 characters, and its counted repetitions at most 1,000 parts when expanded.
- The package `regex` matches expressions without the GIL, for up to 0.5 s of CPU time. The syntax is that of Python's
  `re`, which checks each expression first. `kraal.config.java_regex` translates from Java's syntax.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.errors import PatternTooSlow

MAX_PATTERN_LENGTH: Final = 10_000
"""Maximum length of an expression; compiling longer expressions can take seconds."""
MAX_REPEATED_PARTS: Final = 1_000
"""Maximum number of characters and sets in the expanded counted repetitions of an expression."""
MAX_TEXT_LENGTH: Final = 10_000
"""Maximum length of a text to match; topic names have up to 249 characters."""
MATCH_TIMEOUT_S: Final = 0.5

_QUANTIFIER: Final = re.compile(r"[*+?]|\{([0-9]*)(,?)([0-9]*)\}")
_SET: Final = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled expression with its original text. Thread-safe and picklable."""

    text: str
    engine: Any
    """A `regex.Pattern`."""

    def fullmatch(self, text: str) -> Any:
        """Match the whole text; return the match or None. Raises PatternTooSlow."""
        return self._match_within_limit(self.engine.fullmatch, text)

    def search(self, text: str) -> Any:
        """Return the first match in the text, or None. Raises PatternTooSlow."""
        return self._match_within_limit(self.engine.search, text)

    def _match_within_limit(self, match: Any, text: str) -> Any:
        if len(text) > MAX_TEXT_LENGTH:
            raise PatternTooSlow(
                f"The regular expression '{self.text}' cannot be matched against a text of {len(text)} characters; "
                f"at most {MAX_TEXT_LENGTH} are allowed"
            )
        try:
            return match(text, timeout=MATCH_TIMEOUT_S, concurrent=True)
        except TimeoutError as exc:
            problem = f"took longer than {MATCH_TIMEOUT_S * 1000:.0f} ms on '{text}'"
            raise PatternTooSlow(f"The regular expression '{self.text}' {problem}; simplify it") from exc


def compile_pattern(text: str, translation: str) -> Pattern:
    """Compile a user's expression `text` from its translation. Raises ValueError if the expression is invalid."""
    if (reason := check_length(text) or find_pattern_error(translation)) is not None:
        raise ValueError(reason)
    return Pattern(text, _compile(translation))


def _compile(translation: str) -> Any:
    import regex  # noqa: PLC0415 - late, because clients are installed without it

    return regex.compile(translation, regex.VERSION0 | regex.ASCII)


def find_pattern_error(text: str) -> str | None:
    """Return the reason why an expression in Python's syntax is invalid or not allowed; None if it is allowed."""
    if (reason := _compile_error(text)) is not None:
        return reason
    if (repetition_count := _measure_weight(text).repeated_size) > MAX_REPEATED_PARTS:
        return _repetition_error(repetition_count)
    import regex  # noqa: PLC0415 - see _compile

    try:
        _compile(text)
    except (regex.error, ValueError, OverflowError) as exc:
        return str(exc)
    except RecursionError:
        return "it is nested too deeply"
    return None


def check_length(text: str) -> str | None:
    """Return an error if a user's expression is too long, else None. Translations of expressions may be longer."""
    if len(text) > MAX_PATTERN_LENGTH:
        return f"it has {len(text)} characters; at most {MAX_PATTERN_LENGTH} are allowed"
    return None


def _compile_error(text: str) -> str | None:
    try:
        re.compile(text)
    except (re.error, ValueError, OverflowError) as exc:
        return str(exc)
    except RecursionError:
        return "it is nested too deeply"
    return None


def _repetition_error(repetition_count: int) -> str:
    return f"its repetitions have {repetition_count} parts when expanded; at most {MAX_REPEATED_PARTS} are allowed"


@dataclass(slots=True)
class _Weight:
    """The number of characters and sets in an expression, or in a part of it, when repetitions are expanded."""

    size: int = 0
    repeated_size: int = 0
    """The number of characters and sets in the counted repetitions alone."""

    def times(self, count: int) -> _Weight:
        """Return the weight of `count` repetitions."""
        size = self.size * count
        return _Weight(size, size if count > 1 else self.repeated_size)

    def add(self, other: _Weight) -> None:
        """Add the weight of the next part."""
        self.size += other.size
        self.repeated_size += other.repeated_size


def _measure_weight(text: str) -> _Weight:
    """Return an upper bound for the weight of an expression that Python can compile."""
    groups = [_Weight()]
    index = 0
    while index < len(text):
        char = text[index]
        part = _Weight(size=1)
        if char == "\\":
            index += 2
        elif char == "[":
            match = _SET.match(text, index)
            index = len(text) if match is None else match.end()
        else:
            index += 1
            if char == "(":
                groups.append(_Weight())
                index += text.startswith("?", index)
                continue
            if char == "|":
                continue
            if char == ")" and len(groups) > 1:
                part = groups.pop()
        while match := _QUANTIFIER.match(text, index):
            minimum, comma, maximum = match.groups()
            count = (
                1 if minimum is None else int(maximum or minimum or 0) + (1 if comma and not maximum else 0)
            )
            part = part.times(max(1, count))
            index = match.end()
        groups[-1].add(part)
    while len(groups) > 1:
        part = groups.pop()
        groups[-1].add(part)
    return groups[0]
