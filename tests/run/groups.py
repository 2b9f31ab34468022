"""Groups of tests that share a process, with its broker, Spark and workers, if several processes run the tests.

Tests that play on the suite's Spark are one group, because PySpark has one session per process; every other folder is a
group, and so is a file directly below `tests/integration`. The longest group starts first, as far as
docs/results/durations.md has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.run.durations import PAGE, seconds_of_files

_TOP: Final = Path("tests", "integration")
SPARK: Final = "spark"


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in the same hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its group, and put the longest group first."""
    if not getattr(config.option, "loadgroup", False):  # set in the processes of pytest-xdist
        return
    seconds = seconds_of_files(PAGE.read_text("utf-8")) if PAGE.exists() else {}
    paths = {item: item.path.relative_to(config.rootpath) for item in items}
    groups = {item: group_name(path, uses_spark=_uses_spark(item)) for item, path in paths.items()}
    for item, group in groups.items():
        item.add_marker(pytest.mark.xdist_group(group))
    weights = group_seconds(seconds, {str(paths[item]): group for item, group in groups.items()})
    items.sort(key=lambda item: -weights.get(groups[item], 0.0))


def group_name(path: Path, *, uses_spark: bool) -> str:
    """Return the name of the group of a test in `path`, which is relative to the root of the repository."""
    if uses_spark:
        return SPARK
    return str(path if path.parent == _TOP else path.parent).replace("/", ".")


def group_seconds(files: Mapping[str, float], groups: Mapping[str, str]) -> dict[str, float]:
    """Return the seconds of each group, from those of files and the group of each file."""
    totals: dict[str, float] = {}
    for path, group in groups.items():
        totals[group] = totals.get(group, 0.0) + files.get(path, 0.0)
    return totals


def _uses_spark(item: pytest.Item) -> bool:
    return "engine" in getattr(item, "fixturenames", ())
