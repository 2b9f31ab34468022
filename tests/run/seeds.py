"""Seeds of one run: `SEEDS_A_RUN` of each test, another choice every day; `--seeds all` runs all of them.

A simulated cluster repeats its history for a seed, so tests are parametrized with ranges of a parameter `seed`. Running
every seed with every change would take most of the time of the unit tests. The choice depends on the date alone, so all
processes of a run agree, and every seed runs within some days. Ranges of that length or shorter are never cut.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from typing import Final

import pytest

SEEDS_A_RUN: Final = 2
_PARAMETER: Final = "seed"
_DAY: Final = "KRAAL_TEST_SEEDS_DAY"
"""Number of the day for which seeds are chosen; processes of pytest-xdist inherit it, so midnight splits no run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds", choices=("day", "all"), default="day", help="seeds of tests with many of them"
    )


def pytest_configure() -> None:
    os.environ.setdefault(_DAY, str(datetime.now(UTC).toordinal()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests whose seeds are not those of the day."""
    if config.getoption("seeds") == "all":
        return
    groups: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (group := _group(item)) is not None:
            groups[group].append(item)
    day = int(os.environ[_DAY])
    deselected = {item for group in groups.values() for item in _others(group, day)}
    if deselected:
        config.hook.pytest_deselected(items=list(deselected))
        items[:] = [item for item in items if item not in deselected]


def chosen(count: int, day: int) -> frozenset[int]:
    """Return the positions among `count` seeds that run on `day`, a number of days since any date."""
    return frozenset((day * SEEDS_A_RUN + step) % count for step in range(min(SEEDS_A_RUN, count)))


def _group(item: pytest.Item) -> Hashable | None:
    """Return what an item shares with those that differ from it in the seed alone; None without a seed."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or _PARAMETER not in callspec.params:
        return None
    rest = tuple((name, repr(value)) for name, value in callspec.params.items() if name != _PARAMETER)
    return item.nodeid.partition("[")[0], rest


def _others(group: Sequence[pytest.Item], day: int) -> list[pytest.Item]:
    positions = chosen(len(group), day)
    return [item for position, item in enumerate(group) if position not in positions]
