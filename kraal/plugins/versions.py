"""Versions that a config asks its plugins to have (KIP-891): one version, or a range as Maven writes it.

Source: PluginUtils.connectorVersionRequirement, VersionedPluginLoadingException (Kafka 4.3.0).
"""

from __future__ import annotations

import re

from kraal.errors import BadRequest

LATEST = "latest"
"""Asks for whatever is newest."""

_RANGE = re.compile(r"([\[(])([^,\[\]()]*)(?:(,)([^,\[\]()]*))?([\])])")


def mismatch(plugin: str, wanted: str | None, available: tuple[str, ...]) -> str | None:
    """Return Connect's sentence when no available version is what the config wants; None when one is."""
    if wanted is None or any(allows(wanted, version) for version in available):
        return None
    opening, low, high, closing = _range(wanted)
    shown = f"{opening}{low},{high}{closing}"
    versions = ", ".join(available)
    return (
        f"Plugin {plugin} not found that matches the version range {shown}, available versions: [{versions}]"
    )


def allows(wanted: str, version: str) -> bool:
    """Tell whether a version is the wanted one, or lies in the wanted range."""
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
    """Return a version or a range that can be read. Raises BadRequest for a range that is none."""
    if text.startswith(("[", "(")) and _RANGE.fullmatch(text) is None:
        raise BadRequest(f"Invalid version specification: {text}")
    return text


def _range(wanted: str) -> tuple[str, str, str, str]:
    """Return bracket, lowest, highest, bracket; a mere version is both ends of its range."""
    match = _RANGE.fullmatch(wanted) or _RANGE.fullmatch(f"[{wanted}]")
    if match is None:
        return "[", wanted, wanted, "]"
    opening, low, comma, high, closing = match.groups()
    return opening, low.strip(), high.strip() if comma else low.strip(), closing


def _order(version: str) -> tuple[tuple[int, str], ...]:
    """Return what sorts versions: numbers by value, trailing zeros ignored, words before numbers.

    Of two numbers the longer one is larger: none is read, for they may be of any length.
    """
    parts = [
        (len(part.lstrip("0")), part.lstrip("0")) if part.isascii() and part.isdecimal() else (-1, part)
        for part in re.split(r"[.\-]", version)
    ]
    while parts and parts[-1] == (0, ""):
        parts.pop()
    return tuple(parts)
