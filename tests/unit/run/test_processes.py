"""Tests for the distribution and the order of tests in parallel processes."""

from __future__ import annotations

import pytest

from tests.run.processes import get_scope, sort_slowest_first


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/integration/spark/test_sink.py::test_a[x/y::z]", "tests/integration/spark"),
        ("tests/integration/spark/columns/test_scan.py::test_a", "tests/integration/spark/columns"),
        ("tests/integration/test_doctor.py::test_a", "tests/integration/test_doctor.py"),
        ("tests/integration/cluster/test_lost.py::test_a", "tests/integration/cluster/test_lost.py"),
        ("tests/integration/cluster/test_together.py::test_a", "tests/integration/cluster"),
        ("tests/unit/web/test_app.py::TestA::test_a", "tests/unit/web/test_app.py"),
        ("tests/test_layout.py::test_a", "tests/test_layout.py"),
    ],
)
def test_directories_with_shared_fixtures_are_one_scope(nodeid: str, scope: str) -> None:
    assert get_scope(nodeid) == scope


def test_slowest_scope_runs_first_in_its_original_order() -> None:
    nodeids = [
        "tests/unit/test_short.py::test_b",
        "tests/integration/x/test_b.py::test_1",
        "tests/unit/test_long.py::test_a",
        "tests/integration/x/test_a.py::test_2",
    ]
    seconds = {
        "tests/unit/test_long.py": 25.0,
        "tests/integration/x/test_a.py": 20.0,
        "tests/integration/x/test_b.py": 10.0,
    }
    assert sort_slowest_first(nodeids, seconds) == [1, 3, 2, 0]
