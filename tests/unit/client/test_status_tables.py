"""Tests for verdicts on connector statuses."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.client.status_tables import Verdict, failure_cause, verdict


def make_status(connector: str, *tasks: str) -> dict[str, Any]:
    return {"connector": {"state": connector}, "tasks": [{"state": state} for state in tasks]}


@pytest.mark.parametrize(
    ("status", "target_state", "expected"),
    [
        (None, "RUNNING", Verdict.PENDING),
        (make_status("RUNNING", "RUNNING"), "RUNNING", Verdict.READY),
        (make_status("RUNNING"), "RUNNING", Verdict.WITHOUT_TASKS),
        (make_status("RUNNING", "RUNNING", "UNASSIGNED"), "RUNNING", Verdict.PENDING),
        (make_status("RUNNING", "FAILED", "UNASSIGNED"), "RUNNING", Verdict.FAILED),
        (make_status("FAILED"), "RUNNING", Verdict.FAILED),
        (make_status("PAUSED", "RUNNING"), "PAUSED", Verdict.PENDING),
        (make_status("STOPPED", "RUNNING"), "STOPPED", Verdict.PENDING),
        (make_status("RUNNING", "FAILED"), "STOPPED", Verdict.PENDING),
        (make_status("STOPPED"), "STOPPED", Verdict.READY),
    ],
)
def test_verdict_depends_on_status_and_target_state(
    status: dict[str, Any] | None, target_state: str, expected: Verdict
) -> None:
    assert verdict(status, target_state) is expected


def test_failure_cause_without_root_cause_is_the_first_nonempty_line() -> None:
    assert failure_cause({"trace": "\n  java.lang.Exception: no\n\tat a.b\n"}) == "java.lang.Exception: no"
    assert failure_cause({"trace": None}) == failure_cause({"trace": ""}) == ""
