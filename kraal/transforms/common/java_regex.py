r"""Replacement strings in Java's syntax, for the expressions of `kraal.config.java_regex`.

Source: java.util.regex.Matcher (Java 17).
"""

from __future__ import annotations

import re
from typing import Any, Final

from kraal.config.patterns import Pattern
from kraal.transforms.common.errors import IllegalArgument, IndexOutOfBounds

_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")


def replace_first(pattern: Pattern, text: str, replacement: str) -> str:
    r"""Return the text with the first match replaced: `$1`, `${name}` and `\` before a letter, as in Java.

    Raises IllegalArgument or IndexOutOfBounds for an invalid replacement, and PatternTooSlow.
    Source: Matcher.replaceFirst.
    """
    match = pattern.search(text)
    if match is None:
        return text
    return text[: match.start()] + _expand(match, replacement) + text[match.end() :]


def _expand(match: Any, replacement: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(replacement):
        letter = replacement[at]
        if letter == "\\":
            if at + 1 == len(replacement):
                raise IllegalArgument("character to be escaped is missing")
            out.append(replacement[at + 1])
            at += 2
        elif letter == "$":
            group, at = _group(match.re, replacement, at + 1)
            out.append(match[group] or "")
        else:
            out.append(letter)
            at += 1
    return "".join(out)


def _group(pattern: Any, replacement: str, at: int) -> tuple[int | str, int]:
    """Return the group after a dollar sign, and the index after it."""
    if at == len(replacement):
        raise IllegalArgument("Illegal group reference: group index is missing")
    if replacement[at] == "{":
        name = _NAME.match(replacement, at + 1)
        if name is None:
            raise IllegalArgument(
                "named capturing group is missing trailing '}'"
                if at + 1 == len(replacement)
                else f"capturing group name {{{replacement[at + 1 : -1]}}} starts with digit character"
                if replacement[at + 1].isdigit()
                else "named capturing group has 0 length name"
            )
        if replacement[name.end() : name.end() + 1] != "}":
            raise IllegalArgument("named capturing group is missing trailing '}'")
        if name[0] not in pattern.groupindex:
            raise IllegalArgument(f"No group with name {{{name[0]}}}")
        return name[0], name.end() + 1
    if replacement[at] not in "0123456789":
        raise IllegalArgument("Illegal group reference")
    group, at = int(replacement[at]), at + 1
    if group > pattern.groups:
        raise IndexOutOfBounds(f"No group {group}")
    while at < len(replacement) and replacement[at] in "0123456789":
        longer = group * 10 + int(replacement[at])
        if longer > pattern.groups:
            break
        group, at = longer, at + 1
    return group, at
