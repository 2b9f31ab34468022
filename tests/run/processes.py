"""Distributes tests among the processes of pytest-xdist, for `--dist loadscope --no-loadscope-reorder`.

The tests of a directory run in one process, because they share Spark or workers; those that share only the broker are
distributed by file. The slowest scopes, according to docs/results/durations.md, start first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.run.durations import PAGE, seconds_of_files

_FOLDERS_BY_FILE: Final = ("tests/unit/", "tests/kips/")
_INDEPENDENT_FOLDERS: Final = frozenset({"tests", "tests/integration"})
"""Directories whose files (not subdirectories) share no fixtures."""
_OWN_WORKERS: Final = frozenset(
    f"tests/integration/{folder}/test_{name}.py"
    for folder, names in {
        "cluster": "exactly_once frozen leaving lost mixed mixed_moves mixed_offsets releases secured static "
        "static_mixed",
        "java_plugins": "exactly_once java_module standalone",
        "standalone": "bad_start broker_away killed older_versions variables",
    }.items()
    for name in names.split()
)
"""Files whose tests start their own workers, in directories whose other files share workers."""


def get_scope(nodeid: str) -> str:
    """Return the file or directory whose tests run in one process."""
    path = nodeid.partition("::")[0]
    folder = str(Path(path).parent)
    return (
        path
        if path.startswith(_FOLDERS_BY_FILE) or folder in _INDEPENDENT_FOLDERS or path in _OWN_WORKERS
        else folder
    )


def sort_slowest_first(nodeids: Sequence[str], seconds: Mapping[str, float]) -> list[int]:
    """Return the positions of the tests: slowest scopes first, and in the original order within a scope."""
    totals: defaultdict[str, float] = defaultdict(float)
    for path in {nodeid.partition("::")[0] for nodeid in nodeids}:
        totals[get_scope(path)] += seconds.get(path, 0)
    scopes = [get_scope(nodeid) for nodeid in nodeids]
    return sorted(range(len(nodeids)), key=lambda index: (-totals[scopes[index]], scopes[index]))


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc] # untyped base class
    def _split_scope(self, nodeid: str) -> str:
        return get_scope(nodeid)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Distribute tests by `get_scope`."""
    return _Scheduling(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests in the same order in each process."""
    if hasattr(config, "workerinput"):
        order = sort_slowest_first([item.nodeid for item in items], seconds_of_files(PAGE.read_text("utf-8")))
        items[:] = [items[index] for index in order]
