from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.activity.timeline import build_timeline, select_instance
from web.ui.views.activity.verdict import Verdict, summarize_instance
from web.ui.views.cluster import UnassignedInstance
from web.ui.views.connector import connector_page


def verdict(
    state: str,
    *states: tuple[str, str, str],
    trace: str = "",
    supervision: Any = None,
    is_stalled: bool = False,
    waiting: tuple[UnassignedInstance, ...] = (),
) -> Verdict:
    """Return the verdict on task 0, whose status has `state` and whose history has `states`, newest first.

    Each item of `states` is a tuple (state, cause, author).
    """
    status: Any = {
        "connector": {"state": "RUNNING"},
        "tasks": [{"id": 0, "state": state, "worker_id": "w:1", "trace": trace}],
    }
    if supervision is not None or is_stalled:
        status["supervision"] = {"tasks": [{"id": 0, "stalled": is_stalled, **(supervision or {})}]}
    page = connector_page("orders", status, None, None)
    history = {
        "states": [
            {"ms": 900 - number, "task": 0, "state": state_name, "cause": cause, "by": by, "worker_id": "w:1"}
            for number, (state_name, cause, by) in enumerate(states)
        ]
    }
    return summarize_instance(
        page.tasks[0], select_instance(build_timeline(history, 1_000), 0), waiting, "orders"
    )


def test_failure_has_root_cause_and_start_time() -> None:
    explanation = verdict(
        "FAILED", ("FAILED", "E: top", ""), trace="E: top\nCaused by: IOError: disk is full\n\tat a.B"
    )
    assert (explanation.title, explanation.since_ms, explanation.why) == (
        "Failed",
        900,
        "IOError: disk is full",
    )


@pytest.mark.parametrize(
    ("supervision", "next_step", "when"),
    [
        (None, "Restart it after fixing the cause.", None),
        ({"next_restart_ms": 1_500}, "It is restarted automatically", 1_500),
        (
            {"given_up": "budget", "why": "5 restarts in 10 min."},
            "no longer restarted automatically. 5 restarts in 10 min.",
            None,
        ),
        ({"supervised": False}, "It is not restarted automatically. Restart it", None),
    ],
)
def test_failure_has_a_next_step(supervision: Any, next_step: str, when: int | None) -> None:
    explanation = verdict("FAILED", trace="E", supervision=supervision)
    assert next_step in explanation.next
    assert explanation.next_ms == when


def test_paused_task_has_an_author() -> None:
    explanation = verdict("PAUSED", ("PAUSED", "paused", "PUT from 10.0.0.7"))
    assert (explanation.why, explanation.by) == ("paused", "PUT from 10.0.0.7")
    assert "resumed" in explanation.next


def test_unassigned_task_has_a_reason() -> None:
    unassigned = UnassignedInstance("orders", 0, "UNASSIGNED", "delayed until 12:05")
    explanation = verdict("UNASSIGNED", ("UNASSIGNED", "revoked in a rebalance", ""), waiting=(unassigned,))
    assert (explanation.title, explanation.why) == ("No worker runs it", "delayed until 12:05")
    other_task = UnassignedInstance("orders", 1, "UNASSIGNED", "something else")
    assert verdict("UNASSIGNED", ("UNASSIGNED", "given up", ""), waiting=(other_task,)).why == "given up"


def test_history_older_than_the_status_is_ignored() -> None:
    explanation = verdict("FAILED", ("RUNNING", "created", "POST from 10.0.0.7"), trace="E: broken")
    assert (explanation.since_ms, explanation.why, explanation.by) == (None, "E: broken", "")


def test_stalled_task_is_running_since_its_start() -> None:
    explanation = verdict("RUNNING", ("RUNNING", "created", ""), is_stalled=True)
    assert (explanation.title, explanation.since_ms, explanation.why) == ("No progress", 900, "created")
    cause = "The batch does not complete"
    explanation = verdict(
        "RUNNING", ("RUNNING", "created", ""), is_stalled=True, supervision={"stall_cause": cause}
    )
    assert explanation.why == cause


def test_running_task_has_no_next_step() -> None:
    explanation = verdict("RUNNING", ("RUNNING", "assigned in generation 4", ""))
    assert (explanation.title, explanation.why, explanation.next) == (
        "Running",
        "assigned in generation 4",
        "",
    )
