"""The plugin versions that a config requires (KIP-891): a single version, or a range in Maven's syntax.

Source: PluginUtils.connectorVersionRequirement, VersionedPluginLoadingException (Kafka 4.3.0).
"""

from __future__ import annotations

import re

from kraal.core.errors import BadRequest

LATEST = "latest"
"""The requirement for the newest version."""

_RANGE = re.compile(r"([\[(])([^,\[\]()]*)(?:(,)([^,\[\]()]*))?([\])])")


def mismatch(plugin: str, wanted: str | None, available: tuple[str, ...]) -> str | None:
    """Return Connect's error text if no available version meets the requirement; None if one does."""
    if wanted is None or any(allows(wanted, version) for version in available):
        return None
    opening, low, high, closing = _range(wanted)
    shown = f"{opening}{low},{high}{closing}"
    versions = ", ".join(available)
    return (
        f"Plugin {plugin} not found that matches the version range {shown}, available versions: [{versions}]"
    )


def allows(wanted: str, version: str) -> bool:
    """Return whether a version is the required one or lies in the required range."""
    if wanted == LATEST:
        return True
    if not wanted:
        return False
    opening, low, high, closing = _range(wanted)
    here = _order(version)
    above = not low or _order(low) < here or (opening == "[" and _order(low) == here)
    below = not high or here < _order(high) or (closing == "]" and _order(high) == here)
    return above and below


def specified(text: str) -> str:
    """Return a valid version or range. Raises BadRequest for an invalid range."""
    if text.startswith(("[", "(")) and _RANGE.fullmatch(text) is None:
        raise BadRequest(f"Invalid version specification: {text}")
    return text


def _range(wanted: str) -> tuple[str, str, str, str]:
    """Return bracket, lowest, highest, bracket; a single version is both ends of its range."""
    match = _RANGE.fullmatch(wanted) or _RANGE.fullmatch(f"[{wanted}]")
    if match is None:
        return "[", wanted, wanted, "]"
    opening, low, comma, high, closing = match.groups()
    return opening, low.strip(), high.strip() if comma else low.strip(), closing


def _order(version: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key for versions: numbers by value, trailing zeros ignored, words before numbers.

    Numbers are compared by length, then as text, and never parsed, because they may have any length.
    """
    parts = [
        (len(part.lstrip("0")), part.lstrip("0")) if part.isascii() and part.isdecimal() else (-1, part)
        for part in re.split(r"[.\-]", version)
    ]
    while parts and parts[-1] == (0, ""):
        parts.pop()
    return tuple(parts)
