"""The plugin versions that a config requires (KIP-891): a single version, or ranges in Maven's syntax.

Versions are ordered as Maven orders them: `1.0` is `1.0.Final`, and `1.0-rc1` is lower.
Source: PluginUtils.connectorVersionRequirement, VersionedPluginLoadingException, DelegatingClassLoader (Kafka 4.4.0),
VersionRange, ComparableVersion (Maven 3.9).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cmp_to_key
from itertools import zip_longest
from typing import Final, NamedTuple, Protocol, TypeVar

from typing_extensions import override

from kraal.core.errors import BadRequest

LATEST: Final = "latest"
"""The requirement for the newest version."""

_RANGE = re.compile(r"([\[(])([^,\[\]()]*)(?:(,)([^,\[\]()]*))?([\])])\s*")
_PARTS = re.compile(r"[0-9]+|[^0-9.\-]+|[.\-]")
_WORDS: Final = {"alpha": 0, "beta": 1, "milestone": 2, "rc": 3, "cr": 3, "snapshot": 4}
_RELEASE: Final = 5
_RELEASES: Final = ("", "final", "ga", "release")
_SERVICE: Final = ("sp",)
_SHORT: Final = {"a": "alpha", "b": "beta", "m": "milestone"}


class Versioned(Protocol):
    """One version of a plugin, at one place."""

    @property
    def version(self) -> str:
        """The version as the plugin states it."""

    @property
    def location(self) -> str:
        """The entry of `plugin.path` that has it; `classpath` for Kraal's own."""


T = TypeVar("T", bound=Versioned)


class _Range(NamedTuple):
    opening: str
    low: str
    high: str
    closing: str

    def has(self, version: str) -> bool:
        """Return whether a version lies between the ends; an empty end is open."""
        low = -1 if not self.low else _compare(self.low, version)
        high = 1 if not self.high else _compare(self.high, version)
        return (low < 0 or (low == 0 and self.opening == "[")) and (
            high > 0 or (high == 0 and self.closing == "]")
        )

    @override
    def __str__(self) -> str:
        return f"{self.opening}{self.low},{self.high}{self.closing}"


def choose(versions: Iterable[T], wanted: str | None, near: str | None = None) -> T | None:
    """Return the highest of ascending `versions` that is wanted, but the one at the place `near` before higher ones.

    None if no version fits. So a connector prefers the converters and transforms of its own directory.
    """
    match = None
    for each in versions:
        if wanted is None or allows(wanted, each.version):
            match = each
        if match is not None and match.location == near:
            break
    return match


def mismatch(plugin: str, wanted: str | None, available: tuple[str, ...]) -> str | None:
    """Return Connect's error text if no available version meets the requirement; None if one does."""
    if wanted is not None and is_invalid(wanted):
        return f"Unbounded range: {wanted}"
    if wanted is None or any(allows(wanted, version) for version in available):
        return None
    ranges = ",".join(map(str, _ranges(wanted)))
    versions = ", ".join(available)
    return (
        f"Plugin {plugin} not found that matches the version range {ranges}, available versions: [{versions}]"
    )


def allows(wanted: str, version: str) -> bool:
    """Return whether a version is the required one or lies in a required range."""
    if wanted == LATEST:
        return True
    return bool(wanted) and any(each.has(version) for each in _ranges(wanted))


def is_invalid(wanted: str) -> bool:
    """Return whether a text starts like a version range but is not a valid one."""
    return wanted.startswith(("[", "(")) and not _sets(wanted)


def check_specification(text: str) -> str:
    """Return a valid version or ranges. Raises BadRequest for an invalid range."""
    if is_invalid(text):
        raise BadRequest(f"Invalid version specification: {text}")
    return text


def _ranges(wanted: str) -> list[_Range]:
    """Return the required ranges; a single version is both ends of one."""
    return _sets(wanted) or _sets(f"[{wanted}]") or [_Range("[", wanted, wanted, "]")]


def _sets(text: str) -> list[_Range]:
    """Return ranges that are separated by commas; none if the text is something else."""
    ranges: list[_Range] = []
    at = 0
    while match := _RANGE.match(text, at):
        opening, low, comma, high, closing = match.groups()
        ranges.append(_Range(opening, low.strip(), high.strip() if comma else low.strip(), closing))
        at = match.end()
        if at == len(text):
            return ranges
        at += text[at] == ","
    return []


_Token = tuple[int, tuple[int, str]]
_TEXT, _DEEPER, _NUMBER = 0, 1, 2
"""Of two tokens of different types, the one of the higher type is higher, regardless of values."""
_END: Final[dict[int, _Token]] = {
    _TEXT: (_TEXT, (_RELEASE, "")),
    _DEEPER: (_DEEPER, (0, "")),
    _NUMBER: (_NUMBER, (0, "")),
}
"""The token that stands for the end of the shorter version."""


def _compare(one: str, other: str) -> int:
    """Return a negative number, 0 or a positive number: whether `one` is lower than, equal to or above `other`."""
    for left, right in zip_longest(_tokens(one), _tokens(other)):
        mine = left if left is not None else _END[right[0]]
        its = right if right is not None else _END[left[0]]
        if mine != its:
            return -1 if mine < its else 1
    return 0


ascending = cmp_to_key(_compare)
"""A sort key of versions."""


def _tokens(version: str) -> list[_Token]:
    """Return the parts of a version; `_DEEPER` starts a part that counts less, and words always do.

    Numbers are compared by length, then as text, and never parsed, because they may have any length.
    """
    tokens: list[_Token] = []
    parts = _PARTS.findall(version.lower())
    before = ""
    for at, part in enumerate(parts):
        after = parts[at + 1] if at + 1 < len(parts) else ""
        if part in (".", "-"):
            if before in ("", ".", "-"):
                tokens.append(_END[_NUMBER])
            if part == "-":
                tokens.append(_END[_DEEPER])
        elif part.isascii() and part.isdecimal():
            if before not in ("", ".", "-"):
                tokens.append(_END[_DEEPER])
            tokens.append((_NUMBER, (len(part.lstrip("0")), part.lstrip("0"))))
        else:
            if tokens and tokens[-1][0] != _DEEPER:
                tokens.append(_END[_DEEPER])
            tokens.append((_TEXT, _word(part, before_number=after.isdecimal())))
        before = part
    return _without_trailing_ends(tokens)


def _word(text: str, *, before_number: bool) -> tuple[int, str]:
    if before_number:
        text = _SHORT.get(text, text)
    if text in _RELEASES:
        return (_RELEASE, "")
    if text in _SERVICE:
        return (_RELEASE + 1, "")
    rank = _WORDS.get(text)
    return (_RELEASE + 2, text) if rank is None else (rank, "")


def _without_trailing_ends(tokens: list[_Token]) -> list[_Token]:
    """Remove zeros and words for releases that end the version or a level of it."""
    significant: list[_Token] = []
    ends = True
    for token in reversed(tokens):
        is_end = token == _END[token[0]]
        if is_end and ends and (token[0] != _DEEPER or not significant):
            continue
        significant.append(token)
        ends = token[0] == _DEEPER
    return significant[::-1]
