r"""Regular expressions and replacements in Java's spelling, for Python's `re`.

Names of topics are short and of few letters, so what differs elsewhere (lines, Unicode) cannot be seen here. What
Java spells in another way is rewritten: `(?<name>…)`, `\k<name>`, `\Q…\E`, `\p{Alpha}`, `\z`, `\h`. Sets within sets
(`[a-z&&[^b]]`, `[a[bc]]`), `\G`, `\R` and `\X` are refused.
Source: java.util.regex.Pattern and Matcher (Java 17).
"""

from __future__ import annotations

import re
from typing import Final

from kraal.config.checks import rule, why_no_regex
from kraal.config.values import invalid
from kraal.transforms.errors import IllegalArgument, IndexOutOfBounds

_CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7F",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1F\\x7F",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t\\n\\x0B\\f\\r",
    "L": "a-zA-Z",
    "Lu": "A-Z",
    "Ll": "a-z",
    "N": "0-9",
    "Nd": "0-9",
    "IsAlphabetic": "a-zA-Z",
    "IsDigit": "0-9",
}
"""Named sets; those of Unicode as far as the names of topics go."""

_SPELLINGS: Final = {"z": r"\Z", "Z": r"(?=\n?\Z)", "e": r"\x1B"}
_HORIZONTAL: Final = " \\t\\xA0"
_REFUSED: Final = "GRXNV"
_NAME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")


def compiled(text: str) -> re.Pattern[str]:
    """Compile an expression of Java's. Raises re.error, OverflowError or RecursionError, as `re.compile`."""
    return re.compile(_rewritten(text), re.ASCII)


def why_refused(text: str) -> str | None:
    """Say why a text is no expression; None when it is one."""
    if len(text) == 0:
        return None
    try:
        rewritten = _rewritten(text)
    except re.error as exc:
        return str(exc)
    return why_no_regex(rewritten)


@rule("a regular expression")
def java_regex(name: str, value: object) -> str | None:
    """Want a regular expression of Java's; the detail is Python's. Source: RegexValidator of the transforms."""
    if value is None:
        return invalid(name, None, "Invalid regex: there is none")
    reason = why_refused(str(value))
    return None if reason is None else invalid(name, value, f"Invalid regex: {reason}")


def _rewritten(text: str) -> str:
    out: list[str] = []
    at, in_set = 0, False
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            part, at = _escape(text, at, in_set=in_set)
            out.append(part)
            continue
        if in_set and letter == "[":
            raise re.error("sets within sets are not supported", text, at)
        if in_set and text.startswith("&&", at):
            raise re.error("the intersection of sets (&&) is not supported", text, at)
        if letter == "[":
            in_set, end = True, at + 1 + text.startswith("^", at + 1)
            end += text.startswith("]", end)  # the first one stands for itself
            out.append(text[at:end].replace("]", "\\]"))
            at = end
            continue
        if letter == "]":
            in_set = False
        if not in_set and text.startswith("(?<", at) and text[at + 3 : at + 4] not in {"=", "!"}:
            out.append("(?P<")
            at += 3
            continue
        out.append(letter)
        at += 1
    return "".join(out)


def _escape(text: str, at: int, *, in_set: bool) -> tuple[str, int]:
    """Return what stands for the escape at a backslash, and where the text goes on."""
    kind = text[at + 1 : at + 2]
    if kind == "Q":
        end = text.find("\\E", at + 2)
        quoted = text[at + 2 : len(text) if end < 0 else end]
        return re.escape(quoted), len(text) if end < 0 else end + 2
    if kind in {"p", "P"}:
        return _named_set(text, at, in_set=in_set)
    if kind == "k":
        found = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>").match(text, at + 2)
        if found is None:
            raise re.error("\\k is not followed by '<' for named capturing group", text, at)
        return f"(?P={found[1]})", found.end()
    if kind == "h":
        return (_HORIZONTAL if in_set else f"[{_HORIZONTAL}]"), at + 2
    if kind and kind in _REFUSED:
        raise re.error(f"\\{kind} is not supported", text, at)
    if not in_set and kind in _SPELLINGS:
        return _SPELLINGS[kind], at + 2
    return text[at : at + 2], at + 2


def _named_set(text: str, at: int, *, in_set: bool) -> tuple[str, int]:
    found = re.compile(r"\{(\w+)\}|(\w)").match(text, at + 2)
    name = "" if found is None else found[1] or found[2]
    letters = _CLASSES.get(name)
    negated = text[at + 1] == "P"
    if found is None or letters is None or (negated and in_set):
        raise re.error(f"the set of letters {text[at : at + 3 + len(name)]} is not supported", text, at)
    if in_set:
        return letters, found.end()
    return f"[{'^' if negated else ''}{letters}]", found.end()


def replaced_first(pattern: re.Pattern[str], text: str, replacement: str) -> str:
    r"""Return the text with the first match replaced: `$1`, `${name}` and `\` before a letter, as in Java.

    Raises IllegalArgument or IndexOutOfBounds for a replacement that means nothing. Source: Matcher.replaceFirst.
    """
    found = pattern.search(text)
    if found is None:
        return text
    return text[: found.start()] + _expanded(found, replacement) + text[found.end() :]


def _expanded(found: re.Match[str], replacement: str) -> str:
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
            group, at = _group(found.re, replacement, at + 1)
            out.append(found[group] or "")
        else:
            out.append(letter)
            at += 1
    return "".join(out)


def _group(pattern: re.Pattern[str], replacement: str, at: int) -> tuple[int | str, int]:
    """Return the group that stands behind a dollar, and where the replacement goes on."""
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
