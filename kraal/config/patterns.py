r"""Safe validation and matching of user-defined regular expressions.

A backtracking engine may run for hours on an expression such as `(\w+)+X`, and Python's own engine blocks the
interpreter meanwhile: no heartbeat, no REST, and then the same on the worker that takes over. So all regular
expressions in configs and requests are checked and matched here:

- An expression has at most 10,000 characters, and its counted repetitions have at most 1,000 when expanded.
- The package `regex` matches it, lets other threads run, and stops after 0.5 s of CPU time. The syntax is that of
  Python's `re`, which checks it first; `kraal.config.java_regex` translates from Java's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import regex

from kraal.core.errors import PatternTooSlow

MAX_PATTERN_LENGTH: Final = 10_000
"""Maximum length of an expression; compiling a longer one takes Python seconds."""
MAX_REPEATED_PARTS: Final = 1_000
"""Maximum number of characters and sets in all counted repetitions of an expression when expanded."""
MAX_TEXT_LENGTH: Final = 10_000
"""Maximum length of a text to match; topic names have up to 249 characters."""
LIMIT_S: Final = 0.5

_FLAGS: Final[int] = regex.VERSION0 | regex.ASCII
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
                f"The regular expression '{self.text}' cannot be matched with a text of {len(text)} characters; "
                f"{MAX_TEXT_LENGTH} at most are allowed"
            )
        try:
            return match(text, timeout=LIMIT_S, concurrent=True)
        except TimeoutError as exc:
            took = f"took longer than {LIMIT_S * 1000:.0f} ms on '{text}'"
            raise PatternTooSlow(f"The regular expression '{self.text}' {took}; simplify it") from exc


def compile_pattern(text: str, python: str) -> Pattern:
    """Compile `python`, the translation of the user's `text`. Raises ValueError with the reason."""
    if (reason := length_refusal(text) or refusal(python)) is not None:
        raise ValueError(reason)
    return Pattern(text, regex.compile(python, _FLAGS))


def refusal(text: str) -> str | None:
    """Return why a text is not a valid or allowed expression in Python's syntax; None if it is."""
    if (reason := _python_refusal(text)) is not None:
        return reason
    if (repeated := _weigh(text).repeated) > MAX_REPEATED_PARTS:
        return _repetition_error(repeated)
    try:
        regex.compile(text, _FLAGS)
    except (regex.error, ValueError, OverflowError) as exc:
        return str(exc)
    except RecursionError:
        return "it is nested too deeply"
    return None


def length_refusal(text: str) -> str | None:
    """Return why a user's expression has too many characters; None if it has not. A translation may have more."""
    if len(text) > MAX_PATTERN_LENGTH:
        return f"it has {len(text)} characters, and {MAX_PATTERN_LENGTH} at most are allowed"
    return None


def _python_refusal(text: str) -> str | None:
    try:
        re.compile(text)
    except (re.error, ValueError, OverflowError) as exc:
        return str(exc)
    except RecursionError:
        return "it is nested too deeply"
    return None


def _repetition_error(repeated: int) -> str:
    return (
        f"its repetitions, written out, have {repeated} parts, and {MAX_REPEATED_PARTS} at most are allowed"
    )


@dataclass(slots=True)
class _Weight:
    """The size of an expression, or of a part of it, after its repetitions are expanded."""

    size: int = 0
    repeated: int = 0

    def times(self, count: int) -> _Weight:
        """Return the weight of `count` repetitions."""
        size = self.size * count
        return _Weight(size, size if count > 1 else self.repeated)

    def then(self, other: _Weight) -> None:
        """Add the weight of the next part."""
        self.size += other.size
        self.repeated += other.repeated


def _weigh(text: str) -> _Weight:
    """Return an upper bound for the weight of an expression that Python can compile."""
    groups = [_Weight()]
    at = 0
    while at < len(text):
        letter = text[at]
        part = _Weight(size=1)
        if letter == "\\":
            at += 2
        elif letter == "[":
            match = _SET.match(text, at)
            at = len(text) if match is None else match.end()
        else:
            at += 1
            if letter == "(":
                groups.append(_Weight())
                at += text.startswith("?", at)
                continue
            if letter == "|":
                continue
            if letter == ")" and len(groups) > 1:
                part = groups.pop()
        while match := _QUANTIFIER.match(text, at):
            least, comma, most = match.groups()
            count = 1 if least is None else int(most or least or 0) + (1 if comma and not most else 0)
            part = part.times(max(1, count))
            at = match.end()
        groups[-1].then(part)
    while len(groups) > 1:
        part = groups.pop()
        groups[-1].then(part)
    return groups[0]
