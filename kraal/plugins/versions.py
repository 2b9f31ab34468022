"""The plugin versions that a config requires (KIP-891): a single version, or ranges in Maven's syntax.

Versions have Maven's order: `1.0` equals `1.0.Final`, and `1.0-rc1` is lower.
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
_RELEASE_WORDS: Final = ("", "final", "ga", "release")
_SERVICE_PACKS: Final = ("sp",)
_ABBREVIATIONS: Final = {"a": "alpha", "b": "beta", "m": "milestone"}


class Versioned(Protocol):
    """One version of a plugin in one location."""

    @property
    def version(self) -> str:
        """The version that the plugin declares."""

    @property
    def location(self) -> str:
        """The element of `plugin.path` that contains the plugin; `classpath` for Kraal's own."""


T = TypeVar("T", bound=Versioned)


class _Range(NamedTuple):
    opening: str
    low: str
    high: str
    closing: str

    def has(self, version: str) -> bool:
        """Return whether a version lies within the bounds. An empty bound means no limit."""
        low = -1 if not self.low else _compare(self.low, version)
        high = 1 if not self.high else _compare(self.high, version)
        return (low < 0 or (low == 0 and self.opening == "[")) and (
            high > 0 or (high == 0 and self.closing == "]")
        )

    @override
    def __str__(self) -> str:
        return f"{self.opening}{self.low},{self.high}{self.closing}"


def choose(versions: Iterable[T], requirement: str | None, location: str | None = None) -> T | None:
    """Return the lowest of ascending `versions` in `location` that meets the requirement, or else the highest.

    A connector thus prefers the converters and transforms in its own location. Return None if no version fits.
    """
    match = None
    for candidate in versions:
        if requirement is None or allows(requirement, candidate.version):
            match = candidate
        if match is not None and match.location == location:
            break
    return match


def mismatch(plugin: str, requirement: str | None, available: tuple[str, ...]) -> str | None:
    """Return Connect's error text if no available version meets the requirement; None if one does."""
    if requirement is not None and is_invalid(requirement):
        return f"Unbounded range: {requirement}"
    if requirement is None or any(allows(requirement, version) for version in available):
        return None
    ranges = ",".join(map(str, _ranges(requirement)))
    versions = ", ".join(available)
    return (
        f"Plugin {plugin} not found that matches the version range {ranges}, available versions: [{versions}]"
    )


def allows(requirement: str, version: str) -> bool:
    """Return whether a version equals the required one or lies in a required range."""
    if requirement == LATEST:
        return True
    return bool(requirement) and any(version_range.has(version) for version_range in _ranges(requirement))


def is_invalid(requirement: str) -> bool:
    """Return whether a requirement starts like a version range but is invalid."""
    return requirement.startswith(("[", "(")) and not _parse_ranges(requirement)


def check_specification(text: str) -> str:
    """Return a version requirement unchanged. Raises BadRequest for an invalid range."""
    if is_invalid(text):
        raise BadRequest(f"Invalid version specification: {text}")
    return text


def _ranges(requirement: str) -> list[_Range]:
    """Return the required ranges; a single version becomes a range of one version."""
    return (
        _parse_ranges(requirement)
        or _parse_ranges(f"[{requirement}]")
        or [_Range("[", requirement, requirement, "]")]
    )


def _parse_ranges(text: str) -> list[_Range]:
    """Parse ranges separated by commas; return an empty list for any other text."""
    ranges: list[_Range] = []
    index = 0
    while match := _RANGE.match(text, index):
        opening, low, comma, high, closing = match.groups()
        ranges.append(_Range(opening, low.strip(), high.strip() if comma else low.strip(), closing))
        index = match.end()
        if index == len(text):
            return ranges
        index += text[index] == ","
    return []


_Token = tuple[int, tuple[int, str]]
_TEXT, _DEEPER, _NUMBER = 0, 1, 2
"""The types of tokens; tokens of different types compare by type."""
_PADDING: Final[dict[int, _Token]] = {
    _TEXT: (_TEXT, (_RELEASE, "")),
    _DEEPER: (_DEEPER, (0, "")),
    _NUMBER: (_NUMBER, (0, "")),
}
"""The tokens that pad the shorter of two versions, by the type of the other token."""


def _compare(version: str, other: str) -> int:
    """Compare two versions; return a negative number, zero or a positive number."""
    for left, right in zip_longest(_tokenize(version), _tokenize(other)):
        padded_left = left if left is not None else _PADDING[right[0]]
        padded_right = right if right is not None else _PADDING[left[0]]
        if padded_left != padded_right:
            return -1 if padded_left < padded_right else 1
    return 0


ascending = cmp_to_key(_compare)
"""A sort key of versions."""


def _tokenize(version: str) -> list[_Token]:
    """Split a version into tokens. `_DEEPER` starts a less significant level; a word always starts one.

    Numbers are compared by length, then as text, instead of being parsed, because they may have any length.
    """
    tokens: list[_Token] = []
    parts = _PARTS.findall(version.lower())
    previous = ""
    for index, part in enumerate(parts):
        following = parts[index + 1] if index + 1 < len(parts) else ""
        if part in (".", "-"):
            if previous in ("", ".", "-"):
                tokens.append(_PADDING[_NUMBER])
            if part == "-":
                tokens.append(_PADDING[_DEEPER])
        elif part.isascii() and part.isdecimal():
            if previous not in ("", ".", "-"):
                tokens.append(_PADDING[_DEEPER])
            tokens.append((_NUMBER, (len(part.lstrip("0")), part.lstrip("0"))))
        else:
            if tokens and tokens[-1][0] != _DEEPER:
                tokens.append(_PADDING[_DEEPER])
            tokens.append((_TEXT, _rank_word(part, before_number=following.isdecimal())))
        previous = part
    return _strip_padding(tokens)


def _rank_word(text: str, *, before_number: bool) -> tuple[int, str]:
    if before_number:
        text = _ABBREVIATIONS.get(text, text)
    if text in _RELEASE_WORDS:
        return (_RELEASE, "")
    if text in _SERVICE_PACKS:
        return (_RELEASE + 1, "")
    rank = _WORDS.get(text)
    return (_RELEASE + 2, text) if rank is None else (rank, "")


def _strip_padding(tokens: list[_Token]) -> list[_Token]:
    """Remove trailing zeros and release qualifiers from the version and each of its levels."""
    significant_tokens: list[_Token] = []
    is_trailing = True
    for token in reversed(tokens):
        is_padding = token == _PADDING[token[0]]
        if is_padding and is_trailing and (token[0] != _DEEPER or not significant_tokens):
            continue
        significant_tokens.append(token)
        is_trailing = token[0] == _DEEPER
    return significant_tokens[::-1]
