"""Groups of tests that share a process, with its broker, Spark and workers, if several processes run the tests.

`--dist loadgroup` has these groups: the folders whose tests use the suite's Spark together, because PySpark has one
session per process; every other folder; and each file directly below `tests/integration`. The longest group starts
first, as far as docs/results/durations.md has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, Final

import pytest
from typing_extensions import override
from xdist.scheduler import LoadScopeScheduling

from tests.run.durations import PAGE, seconds_of_files

_TOP: Final = "tests/integration"
SPARK: Final = "spark"
_USE_SPARK: Final = tuple(
    f"{_TOP}/{name}" for name in ("connectors", "converters", "spark/", "test_secured_kafka.py")
)


class _GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Hands groups to processes. pytest-xdist's own one needs marks, which it cannot read with pytest 9.2."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        return group_name(nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Return the scheduler for `--dist loadgroup`."""
    return _GroupScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest group first: with `--no-loadscope-reorder` the scheduler keeps this order."""
    if not getattr(config.option, "loadgroup", False):  # set in the processes of pytest-xdist
        return
    paths = {item: item.nodeid.partition("::")[0] for item in items}
    files = seconds_of_files(PAGE.read_text("utf-8"))
    seconds = group_seconds(files, paths.values())
    items.sort(key=lambda item: -seconds[group_name(paths[item])])


def group_name(path: str) -> str:
    """Return the name of the group of the tests in a file; its path is relative to the root of the repository."""
    if path.startswith(_USE_SPARK):
        return SPARK
    folder = str(PurePath(path).parent)
    return path if folder == _TOP else folder


def group_seconds(files: Mapping[str, float], paths: Iterable[str]) -> dict[str, float]:
    """Return the seconds of the group of each of `paths`, from those of files."""
    totals: dict[str, float] = {}
    for path in set(paths):
        group = group_name(path)
        totals[group] = totals.get(group, 0.0) + files.get(path, 0.0)
    return totals
