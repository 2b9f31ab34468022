"""Tests for the lease of a membership, and for the log lines about its changes."""

from __future__ import annotations

import logging
import math
import re
from pathlib import Path

import pytest

from kraal.core.lease import Lease

ROOT = Path(__file__).parents[3]
LEASE_CHECK = re.compile(r"(?<!def )\b_?lease\(\)")


def test_lease_loss_and_return_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="kraal.core.lease")
    ages_s = iter([math.inf, 1.0, 8.9, 9.0, 30.0, math.inf, 0.1, 0.2, 9.5])
    lease = Lease(lambda: next(ages_s), 10.0)
    assert [lease() for _ in range(9)] == [False, True, True, False, False, False, True, True, False]
    lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in lines] == ["WARNING", "INFO", "WARNING"]
    assert lines[0][1] == (
        "Lost the lease: the group's coordinator has not confirmed the membership for 9.0 s, and session.timeout.ms is "
        "10000. This worker writes nothing for the group until the coordinator responds"
    )
    assert lines[1][1] == "Regained the lease: the group's coordinator has confirmed the membership"


def test_worker_that_has_not_joined_logs_no_lease_loss(caplog: pytest.LogCaptureFixture) -> None:
    lease = Lease(lambda: math.inf, 10.0)
    assert not lease()
    assert not lease()
    assert not caplog.records


def test_manual_lists_all_modules_that_check_the_lease() -> None:
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition("## A lost heartbeat\n")[2].partition("\n## ")[0]
    modules = [
        path.relative_to(ROOT).as_posix()
        for package in ("actors", "kraal")
        for path in sorted((ROOT / package).rglob("*.py"))
        if LEASE_CHECK.search(path.read_text(encoding="utf-8"))
    ]
    expected = [
        module
        for module in modules
        if not module.startswith("kraal/testing/") and module != "actors/assembly.py"
    ]
    assert len(expected) > 8
    assert [
        module
        for module in expected
        if f"`{module}`" not in section and f"`{module.rpartition('/')[2]}`" not in section
    ] == []
