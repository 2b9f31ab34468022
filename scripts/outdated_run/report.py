"""Determines outdated pins and the reasons that block their upgrade. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.outdated_run.holds import HOLDS
from scripts.outdated_run.pins import Pin

Newest = Mapping[tuple[str, str], str]
"""The newest final version in a registry, by registry and name."""

_SPARK: Final = ("python", "pyspark")
_SPARK_JARS: Final = "org.apache.spark:"
_MAX_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class OutdatedPins:
    """Packages that are upgraded together, their newest version, and the reason that blocks the upgrade (or "")."""

    names: tuple[str, ...]
    version: str
    newest: str
    reason: str

    def line(self) -> str:
        """Format one line of the report."""
        names = ", ".join(self.names[:_MAX_NAMES])
        more = len(self.names) - _MAX_NAMES
        text = f"{names}{f' and {more} more' if more > 0 else ''}: {self.version} -> {self.newest}"
        return f"{text} ({self.reason})" if self.reason else text


def order(version: str) -> tuple[int, ...]:
    """Return the numbers in a version, which are its sort key among the versions of one package."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def is_final(version: str) -> bool:
    """Return whether a version is neither a preview nor a release candidate."""
    return re.search(r"(alpha|beta|preview|snapshot|[.-](rc|cr|m)[.-]?\d)", version, re.IGNORECASE) is None


def find_outdated(pins: Iterable[Pin], newest: Newest, limits: Mapping[str, str]) -> list[OutdatedPins]:
    """Return the outdated pins, in the order of `pins`.

    Args:
        pins: the pinned versions.
        newest: the newest versions in registries; pins without an entry are omitted.
        limits: for Python packages with a newer version, the requirement of another package that excludes it.
    """
    families: dict[tuple[str, ...], list[Pin]] = {}
    for pin in pins:
        if (pin.registry, pin.name) in newest:
            families.setdefault(_get_family(pin), []).append(pin)
    outdated = []
    for members in families.values():
        version = members[0].version
        newest_by_name = {pin.name: newest[pin.registry, pin.name] for pin in members}
        target = max(newest_by_name.values(), key=order)
        if order(target) > order(version):
            reasons = [
                _get_hold(members[0]),
                limits.get(members[0].name, ""),
                _describe_lagging(newest_by_name, target),
            ]
            reason = "; ".join(filter(None, reasons))
            outdated.append(OutdatedPins(tuple(newest_by_name), version, target, reason))
    return outdated


def find_limits(requirements: Iterable[tuple[str, str]], newest: Newest) -> dict[str, str]:
    """Return the requirements that exclude the newest version of a Python package, by package.

    Args:
        requirements: pairs of an installed package and one of its requirements, as in its metadata.
        newest: the newest versions in registries.
    """
    limits: dict[str, str] = {}
    for package, text in requirements:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        version = newest.get(("python", name))
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if version and applies and not requirement.specifier.contains(version):
            limits[name] = f"{package} requires {requirement.name}{requirement.specifier}"
    return limits


def _get_family(pin: Pin) -> tuple[str, ...]:
    """Return the key of packages that are upgraded together: PySpark and Spark's jars, or jars of one organization.

    The jars must also have the same version and hold. Any other package is upgraded alone.
    """
    if (pin.registry, pin.name) == _SPARK or pin.name.startswith(_SPARK_JARS):
        return _SPARK
    if pin.registry == "maven":
        return (pin.name.partition(":")[0], pin.version, _get_hold(pin))
    return (pin.registry, pin.name, pin.version)


def _get_hold(pin: Pin) -> str:
    return HOLDS.get(f"{pin.source}/{pin.name}") or HOLDS.get(pin.source) or HOLDS.get(pin.name, "")


def _describe_lagging(newest_by_name: Mapping[str, str], target: str) -> str:
    lagging = [name for name, version in newest_by_name.items() if order(version) < order(target)]
    return f"{target} is not available for {', '.join(lagging)}" if lagging else ""
