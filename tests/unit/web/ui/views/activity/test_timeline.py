from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.activity.timeline import STRIP_WIDTH, Timeline, build_strip, build_timeline, select_instance

NOW = 1_000_000


def state(
    ms: int, state_name: str, cause: str = "", *, task: int | None = 0, by: str = "", worker: str = "w:1"
) -> Any:
    return {
        "ms": ms,
        "task": task,
        "state": state_name,
        "worker_id": worker,
        "generation": 3,
        "cause": cause,
        "by": by,
        "trace": "IOError: full\n\tat a.B" if state_name == "FAILED" else None,
    }


def make_timeline(*states: Any) -> Timeline:
    """Return the timeline of `states`, which must be in chronological order."""
    return build_timeline(
        {"worker_id": "w:9", "since_ms": 5, "dropped": 2, "states": list(reversed(states))}, NOW
    )


def test_state_lasts_until_the_next_state_or_now() -> None:
    timeline = make_timeline(state(100_000, "RUNNING", "created"), state(900_000, "FAILED", "IOError: full"))
    assert [(entry.state, entry.lasted_ms, entry.current) for entry in timeline.entries] == [
        ("failed", 100_000, True),
        ("running", 800_000, False),
    ]
    assert (timeline.since_ms, timeline.worker, timeline.dropped) == (5, "w:9", 2)
    assert [(entry.cause, entry.trace) for entry in timeline.entries] == [
        ("IOError: full", "IOError: full\n\tat a.B"),
        ("created", ""),
    ]


def test_states_of_other_instances_do_not_end_a_state() -> None:
    timeline = make_timeline(
        state(100, "RUNNING", task=None),
        state(200, "RUNNING"),
        state(300, "FAILED", task=1),
        state(400, "FAILED"),
    )
    assert [(entry.task, entry.ms, entry.lasted_ms) for entry in timeline.entries] == [
        (0, 400, NOW - 400),
        (1, 300, NOW - 300),
        (0, 200, 200),
        (None, 100, NOW - 100),
    ]
    assert [entry.ms for entry in select_instance(timeline, 0).entries] == [400, 200]
    assert [entry.ms for entry in select_instance(timeline, None).entries] == [100]


def test_clock_skew_gives_no_negative_duration() -> None:
    assert [
        entry.lasted_ms for entry in make_timeline(state(500, "RUNNING"), state(400, "FAILED")).entries
    ] == [
        NOW - 400,
        0,
    ]


def test_removed_instance_has_no_duration() -> None:
    timeline = make_timeline(
        state(100, "RUNNING"), state(300, "REMOVED", "deleted", by="DELETE from 10.0.0.7")
    )
    assert [(entry.state, entry.lasted_ms, entry.by) for entry in timeline.entries] == [
        ("removed", None, "DELETE from 10.0.0.7"),
        ("running", 200, ""),
    ]


def test_entry_marks_a_moved_instance() -> None:
    timeline = make_timeline(
        state(100, "RUNNING"), state(200, "RUNNING", worker="w:2"), state(300, "PAUSED", worker="w:2")
    )
    assert [entry.is_moved for entry in timeline.entries] == [False, True, False]


def test_state_before_worker_startup_is_marked() -> None:
    assert (
        make_timeline(state(100, "RUNNING", "as stored")).entries[0].cause == "found when the worker started"
    )


def test_restart_is_counted_once_despite_several_states() -> None:
    timeline = make_timeline(
        state(100, "RUNNING", "created"),
        state(200, "RESTARTING", "restarted", by="POST from 10.0.0.7"),
        state(210, "UNASSIGNED", "restarted", by="POST from 10.0.0.7"),
        state(220, "RUNNING", "restarted", by="POST from 10.0.0.7"),
        state(300, "FAILED", "IOError: full"),
        state(310, "RESTARTING", "automatic restart 1 of 5"),
        state(320, "RUNNING", "automatic restart 1 of 5"),
        state(330, "RESTARTING", "restarted"),
        state(340, "RUNNING", "restarted"),
    )
    assert (timeline.requested_count, timeline.automatic_count, timeline.failure_count) == (2, 1, 1)
    assert [restart.ms for restart in timeline.restarts] == [330, 310, 200]


def test_restart_without_a_separate_state_is_counted() -> None:
    timeline = make_timeline(state(100, "FAILED", "E"), state(200, "RUNNING", "automatic restart 2 of 5"))
    assert (timeline.automatic_count, timeline.restarts[0].ran_ms) == (1, NOW - 200)


def test_restart_has_the_duration_of_the_following_run() -> None:
    timeline = make_timeline(
        state(100, "RESTARTING", "restarted", by="POST from 10.0.0.7"),
        state(120, "RUNNING", "restarted"),
        state(620, "FAILED", "IOError: full"),
        state(700, "RESTARTING", "automatic restart 1 of 5"),
        state(710, "FAILED", "IOError: still full"),
        state(800, "RESTARTING", "automatic restart 2 of 5"),
    )
    assert [
        (restart.is_automatic, restart.by, restart.ran_ms, restart.next_state, restart.next_cause)
        for restart in timeline.restarts
    ] == [
        (True, "", None, "", ""),
        (True, "", None, "failed", "IOError: still full"),
        (False, "POST from 10.0.0.7", 500, "failed", "IOError: full"),
    ]


def test_strip_shows_states_by_duration_with_a_minimum_width() -> None:
    entries = make_timeline(
        state(0, "RUNNING"), state(999_990, "FAILED"), state(999_995, "RESTARTING")
    ).entries
    strip = build_strip(entries, NOW)
    assert [segment.state for segment in strip] == ["running", "failed", "restarting"]
    assert strip[0].width > 500
    assert min(segment.width for segment in strip) >= 3
    assert sum(segment.width for segment in strip) == pytest.approx(STRIP_WIDTH, abs=1)
    assert strip[1].x == pytest.approx(strip[0].width, abs=0.2)


def test_strip_is_limited_to_a_day_and_its_width() -> None:
    day = 24 * 3_600_000
    now = 10 * day
    timeline = build_timeline(
        {"states": [state(now - 1, "FAILED"), state(now - day // 2, "PAUSED"), state(0, "RUNNING")]}, now
    )
    widths = {segment.state: segment.width for segment in build_strip(timeline.entries, now)}
    assert widths["running"] == pytest.approx(widths["paused"], abs=2)
    states = [state(now - number, "FAILED" if number % 2 else "RUNNING") for number in range(1_000)]
    strip = build_strip(build_timeline({"states": states}, now).entries, now)
    assert sum(segment.width for segment in strip) == pytest.approx(STRIP_WIDTH, abs=STRIP_WIDTH / 10)
    assert strip[-1].state == "running"


@pytest.mark.parametrize("entries", [[], [state(NOW, "RUNNING")]])
def test_strip_has_one_segment_per_entry(entries: Any) -> None:
    assert len(build_strip(build_timeline({"states": entries}, NOW).entries, NOW)) == len(entries)


@pytest.mark.parametrize("history", [None, [], "x", {"states": "x"}, {"states": [None, {}, {"ms": "x"}]}])
def test_malformed_response_has_no_entries(history: object) -> None:
    assert build_timeline(history, NOW).entries == []


def test_values_of_unexpected_types_are_missing() -> None:
    timeline = build_timeline(
        {"states": [{"ms": 1, "task": "x", "state": 7, "cause": None, "generation": True}]}, NOW
    )
    assert [(entry.task, entry.state, entry.cause, entry.generation) for entry in timeline.entries] == [
        (None, "unknown", "", None)
    ]
