"""How tests are divided among the processes of pytest-xdist, for `--dist loadscope --no-loadscope-reorder`.

The tests of a folder stay in one process, because they share Spark or workers; folders and files whose tests share
nothing but the broker are divided by file. What takes longest, according to docs/results/durations.md, starts first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.run.durations import PAGE, seconds_of_files

_BY_FILE: Final = ("tests/unit/", "tests/kips/")
_LOOSE: Final = frozenset({"tests", "tests/integration"})
"""Folders whose own files are independent."""
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
"""Files whose tests start all their workers, in folders whose other files share some."""


def scope_of(nodeid: str) -> str:
    """Return the file, or the folder, whose tests stay in one process."""
    path = nodeid.partition("::")[0]
    folder = str(Path(path).parent)
    return path if path.startswith(_BY_FILE) or folder in _LOOSE or path in _OWN_WORKERS else folder


def longest_first(nodeids: Sequence[str], seconds: Mapping[str, float]) -> list[int]:
    """Return the positions in a new order: scopes by their time, tests within a scope as before."""
    totals: defaultdict[str, float] = defaultdict(float)
    for path in {nodeid.partition("::")[0] for nodeid in nodeids}:
        totals[scope_of(path)] += seconds.get(path, 0)
    scopes = [scope_of(nodeid) for nodeid in nodeids]
    return sorted(range(len(nodeids)), key=lambda place: (-totals[scopes[place]], scopes[place]))


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc] # without type information
    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Divide by `scope_of`."""
    return _Scheduling(config, log) if config.getoption("dist") == "loadscope" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests in each process alike."""
    if hasattr(config, "workerinput"):
        order = longest_first([item.nodeid for item in items], seconds_of_files(PAGE.read_text("utf-8")))
        items[:] = [items[place] for place in order]
