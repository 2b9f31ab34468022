"""Selects `SEEDS_A_RUN` seeds of each test, which change every day; `--seeds all` runs all seeds.

A simulated cluster is deterministic for a seed, so tests are parametrized with ranges of a parameter `seed`. Running
all seeds for every change would take most of the time of the unit tests. The selection depends only on the date, so all
processes of a run agree, and every seed runs within a few days. Ranges of at most `SEEDS_A_RUN` seeds always run.

The same applies to tests that start processes for each value of a parameter, such as a compression type. With
`@pytest.mark.one_a_day(PARAMETER)` one value runs each day; parameters that are set together are listed together.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Hashable, Sequence
from datetime import UTC, datetime
from typing import Final

import pytest

SEEDS_A_RUN: Final = 2
_SEED: Final = "seed"
_ONE_A_DAY: Final = "one_a_day"
_DAY: Final = "KRAAL_TEST_SEEDS_DAY"
"""Environment variable with the day for which seeds are selected. All pytest-xdist processes of a run inherit it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds",
        choices=("day", "all"),
        default="day",
        help="seeds to run for tests with many seeds: those of the day, or all",
    )


def pytest_configure() -> None:
    os.environ.setdefault(_DAY, str(datetime.now(UTC).toordinal()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests whose seeds or parameter values are not selected for the day."""
    if config.getoption("seeds") == "all":
        return
    groups: dict[tuple[str, int, Hashable], list[pytest.Item]] = defaultdict(list)
    for item in items:
        if (group := _get_group(item)) is not None:
            groups[group].append(item)
    day = int(os.environ[_DAY])
    deselected = {
        item for (_, size, _), group in groups.items() for item in _find_deselected(group, size, day)
    }
    if deselected:
        config.hook.pytest_deselected(items=list(deselected))
        items[:] = [item for item in items if item not in deselected]


def choose_positions(count: int, day: int, size: int = SEEDS_A_RUN) -> frozenset[int]:
    """Return the `size` positions (of `count`) that run on `day`, which is counted from an arbitrary date."""
    return frozenset((day * size + step) % count for step in range(min(size, count)))


def _get_group(item: pytest.Item) -> tuple[str, int, Hashable] | None:
    """Return a key of the items that differ only in the selected parameters, or None if the item runs every day.

    The second element of the key is the number of items to run.
    """
    marker = item.get_closest_marker(_ONE_A_DAY)
    names, size = ((_SEED,), SEEDS_A_RUN) if marker is None else (marker.args, 1)
    callspec = getattr(item, "callspec", None)
    if callspec is None or names[0] not in callspec.params or (marker and item.get_closest_marker("slow")):
        return None
    other_parameters = tuple(
        (name, repr(value)) for name, value in callspec.params.items() if name not in names
    )
    return item.nodeid.partition("[")[0], size, other_parameters


def _find_deselected(group: Sequence[pytest.Item], size: int, day: int) -> list[pytest.Item]:
    positions = choose_positions(len(group), day, size)
    return [item for position, item in enumerate(group) if position not in positions]
