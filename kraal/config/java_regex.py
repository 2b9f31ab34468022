r"""Translation of Java's regular expressions, for `kraal.config.patterns`.

Topic names are short and have few kinds of characters, so other differences (lines, Unicode) have no effect. Constructs
with another syntax in Java are rewritten: `(?<name>…)`, `\k<name>`, `\Q…\E`, `\p{Alpha}`, `\z`, `\h`, `\0101`,
`\x{41}`. Nested sets (`[a-z&&[^b]]`, `[a[bc]]`), flags after the beginning (`a(?i)b`), `\G`, `\R` and `\X` are
rejected.
Source: java.util.regex.Pattern (Java 17).
"""

from __future__ import annotations

import re
import sys
from typing import Final

from kraal.config import patterns
from kraal.config.checks import rule
from kraal.config.patterns import Pattern
from kraal.config.values import invalid

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
"""Named character sets; Unicode sets are limited to the characters of topic names."""

_COUNT: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}|\{,[0-9]+\}")
_SPELLINGS: Final = {"z": r"\Z", "Z": r"(?=\n?\Z)", "e": r"\x1B"}
_NUMBERED: Final = re.compile(r"\\(?:0([0-3]?[0-7]{1,2})|x\{([0-9a-fA-F]{1,8})\})")
"""`\\0n` in octal and `\\x{h…h}` in hexadecimal, as Java writes characters."""
_HORIZONTAL: Final = " \\t\\xA0"
_REFUSED: Final = "GRXNV"


def compiled(text: str, *, ignore_case: bool = False) -> Pattern:
    """Compile a Java regular expression. Raises ValueError with the reason."""
    try:
        return patterns.compiled(text, _rewritten(text), ignore_case=ignore_case)
    except re.error as exc:
        raise ValueError(str(exc)) from exc


def why_refused(text: str) -> str | None:
    """Return why a text is not a valid expression; None if it is valid."""
    if len(text) == 0:
        return None
    try:
        rewritten = _rewritten(text)
    except re.error as exc:
        return str(exc)
    return patterns.why_refused(rewritten)


@rule("a regular expression")
def java_regex(name: str, value: object) -> str | None:
    """Require a Java regular expression; the error detail is Python's. Source: RegexValidator of the transforms."""
    if value is None:
        return invalid(name, None, "Invalid regex: it is empty")
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
            end += text.startswith("]", end)  # the first one is literal
            out.append(text[at:end].replace("]", "\\]"))
            at = end
            continue
        if letter == "]":
            in_set = False
        if not in_set and text.startswith("(?<", at) and text[at + 3 : at + 4] not in {"=", "!"}:
            out.append("(?P<")
            at += 3
            continue
        if letter == "{" and not in_set and not _COUNT.match(text, at):
            out.append("\\")  # otherwise `regex` would read `a{e<=1}` as a fuzzy match
        out.append(letter)
        at += 1
    return "".join(out)


def _escape(text: str, at: int, *, in_set: bool) -> tuple[str, int]:
    """Return the translation of the escape at a backslash, and the position after it."""
    kind = text[at + 1 : at + 2]
    if kind == "Q":
        end = text.find("\\E", at + 2)
        quoted = text[at + 2 : len(text) if end < 0 else end]
        return re.escape(quoted), len(text) if end < 0 else end + 2
    if kind in {"p", "P"}:
        return _named_set(text, at, in_set=in_set)
    if kind == "k":
        match = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>").match(text, at + 2)
        if match is None:
            raise re.error("\\k is not followed by '<' for named capturing group", text, at)
        return f"(?P={match[1]})", match.end()
    if kind == "h":
        return (_HORIZONTAL if in_set else f"[{_HORIZONTAL}]"), at + 2
    if number := _NUMBERED.match(text, at):
        return _numbered(number, text), number.end()
    if kind and kind in _REFUSED:
        raise re.error(f"\\{kind} is not supported", text, at)
    if not in_set and kind in _SPELLINGS:
        return _SPELLINGS[kind], at + 2
    return text[at : at + 2], at + 2


def _numbered(number: re.Match[str], text: str) -> str:
    """Return the translation of a character that is written as a number."""
    code = int(number[1], 8) if number[1] else int(number[2], 16)
    if code > sys.maxunicode:
        raise re.error("Hexadecimal codepoint is too big", text, number.start())
    return f"\\U{code:08x}"


def _named_set(text: str, at: int, *, in_set: bool) -> tuple[str, int]:
    match = re.compile(r"\{(\w+)\}|(\w)").match(text, at + 2)
    name = "" if match is None else match[1] or match[2]
    letters = _CLASSES.get(name)
    negated = text[at + 1] == "P"
    if match is None or letters is None or (negated and in_set):
        raise re.error(f"the set of letters {text[at : at + 3 + len(name)]} is not supported", text, at)
    if in_set:
        return letters, match.end()
    return f"[{'^' if negated else ''}{letters}]", match.end()
