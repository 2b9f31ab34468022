r"""Replacement strings in Java's syntax, for the patterns of `kraal.config.java_regex`.

Source: java.util.regex.Matcher (Java 17).
"""

from __future__ import annotations

import re
from typing import Any, Final

from kraal.config.patterns import Pattern
from kraal.transforms.common.errors import IllegalArgument, IndexOutOfBounds

_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")


def replace_first(pattern: Pattern, text: str, replacement: str) -> str:
    r"""Replace the first match; the replacement can contain `$1`, `${name}` and `\` escapes, as in Java.

    Raises IllegalArgument or IndexOutOfBounds for an invalid replacement, and PatternTooSlow.
    Source: Matcher.replaceFirst.
    """
    match = pattern.search(text)
    if match is None:
        return text
    return text[: match.start()] + _expand_replacement(match, replacement) + text[match.end() :]


def _expand_replacement(match: Any, replacement: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(replacement):
        char = replacement[at]
        if char == "\\":
            if at + 1 == len(replacement):
                raise IllegalArgument("character to be escaped is missing")
            pieces.append(replacement[at + 1])
            at += 2
        elif char == "$":
            group, at = _parse_group_reference(match.re, replacement, at + 1)
            pieces.append(match[group] or "")
        else:
            pieces.append(char)
            at += 1
    return "".join(pieces)


def _parse_group_reference(pattern: Any, replacement: str, at: int) -> tuple[int | str, int]:
    """Parse the group reference after a dollar sign; return the group and the index after the reference."""
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
        longer_group = group * 10 + int(replacement[at])
        if longer_group > pattern.groups:
            break
        group, at = longer_group, at + 1
    return group, at
