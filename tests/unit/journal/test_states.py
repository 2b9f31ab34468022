"""Tests that the history contains each state once with its cause, even if several herders read the same records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.core.ids import ConnectorName, Generation, Instance, State, TaskId, WorkerId
from kraal.core.secrets import secrets
from kraal.journal.causes import STORED_CAUSE, Cause, Kind
from kraal.journal.states import MAX_PENDING_CAUSES, TRACE_BYTES, StateEntry, States
from kraal.protocol.status_records import Status

NAME = ConnectorName("numbers")
T0, T1 = TaskId(NAME, 0), TaskId(NAME, 1)
NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _clear_secrets() -> Iterator[None]:
    yield
    secrets.clear()


def status(state: State, ms: int = 0, *, trace: str | None = None, generation: int = 1) -> Status:
    return Status(
        state=state,
        worker_id=WorkerId("a:1"),
        generation=Generation(generation),
        trace=trace,
        written_ms=NOW_MS + ms,
    )


def create_states() -> States:
    return States(64 * 1024, 1024 * 1024)


def recorded_states(states: States, name: ConnectorName = NAME) -> list[tuple[int | None, str]]:
    return [(entry.task, entry.state) for entry in states.read(name).entries]


def add(states: States, instance: Instance, after: Status | None) -> StateEntry | None:
    return states.add(instance, after, NOW_MS if after is None else after.written_ms, now_ms=NOW_MS + 500)


def replay(states: States, records: Sequence[Status | None], *, first: int = 0) -> None:
    """Replay records whose times are their numbers, starting at `first` + 1."""
    for number, record in enumerate(records, first + 1):
        states.replay(T0, record, NOW_MS + number)


def test_entry_contains_all_fields_of_a_state() -> None:
    states = create_states()
    states.record_cause([T0], Cause(Kind.RESTART, "POST from 10.0.0.7", NOW_MS))
    entry = add(states, T0, status(State.RESTARTING, 7))
    assert entry is not None
    assert entry.to_json() == {
        "ms": NOW_MS + 7, "task": 0, "state": "RESTARTING", "worker_id": "a:1", "generation": 1,
        "cause": "restarted", "by": "POST from 10.0.0.7", "trace": None,
    }  # fmt: skip
    assert states.read(NAME).entries == (entry,)


def test_repeated_state_is_not_recorded() -> None:
    states = create_states()
    for ms in (0, 1, 2):
        add(states, NAME, status(State.RUNNING, ms))
    add(states, NAME, status(State.RUNNING, 3, generation=2))
    assert recorded_states(states) == [(None, "RUNNING")] * 2
    add(states, NAME, None)
    add(states, NAME, None)
    assert recorded_states(states) == [(None, "RUNNING"), (None, "RUNNING"), (None, "REMOVED")]


def test_cause_explains_states_until_the_next_settled_state() -> None:
    states = create_states()
    states.record_cause([T0], Cause(Kind.RESTART, "somebody", NOW_MS))
    for state in (State.RESTARTING, State.UNASSIGNED, State.RUNNING, State.UNASSIGNED):
        add(states, T0, status(state))
    causes = [entry.cause for entry in states.read(NAME).entries]
    assert causes == ["restarted", "restarted", "restarted", "stopped by its worker"]


def test_latest_cause_applies_to_its_instances_only() -> None:
    states = create_states()
    states.record_cause([T0, T1], Cause(Kind.CONFIG, "one", NOW_MS))
    states.record_cause([T1], Cause(Kind.RESTART, "another", NOW_MS))
    for task in (T0, T1):
        add(states, task, status(State.UNASSIGNED))
    assert [(e.cause, e.by) for e in states.read(NAME).entries] == [
        ("config changed", "one"),
        ("restarted", "another"),
    ]


class TestLateCauses:
    """Tests for causes that are read after their states, because config and status log are read independently."""

    CAUSE = Cause(Kind.CONFIG, "somebody", NOW_MS + 10)

    def test_late_cause_explains_only_its_states(self) -> None:
        states = create_states()
        for number, state in enumerate((State.RUNNING, State.UNASSIGNED, State.RUNNING)):
            add(states, T0, status(state, 10 * number + 5))
        states.record_cause([T0, T1], self.CAUSE, amends=True)
        add(states, T0, status(State.UNASSIGNED, 40))
        assert [(entry.cause, entry.by) for entry in states.read(NAME).entries] == [
            ("assigned in generation 1", ""),
            ("config changed", "somebody"),
            ("config changed", "somebody"),
            ("stopped by its worker", ""),
        ]

    def test_late_cause_explains_subsequent_states(self) -> None:
        states = create_states()
        add(states, T0, status(State.RUNNING, 5))
        add(states, T0, status(State.UNASSIGNED, 15))
        states.record_cause([T0], self.CAUSE, amends=True)
        add(states, T0, status(State.RUNNING, 20))
        assert [entry.cause for entry in states.read(NAME).entries][1:] == ["config changed"] * 2

    def test_existing_causes_are_not_amended(self) -> None:
        states = create_states()
        states.record_cause([T0], Cause(Kind.RESTART, "another", NOW_MS))
        for instance, state in ((T0, State.RUNNING), (T1, State.RUNNING), (NAME, State.FAILED)):
            add(states, instance, status(state, 15, trace="OSError: x" if state is State.FAILED else None))
        states.record_cause([T0, NAME], self.CAUSE, amends=True)
        causes = {entry.task: entry.cause for entry in states.read(NAME).entries}
        assert causes == {0: "restarted", 1: "assigned in generation 1", None: "OSError: x"}

    def test_local_decision_does_not_amend_earlier_states(self) -> None:
        states = create_states()
        add(states, T0, status(State.RUNNING, 15))  # the clock of the writer is ahead
        states.record_cause([T0], self.CAUSE)
        add(states, T0, status(State.UNASSIGNED, 20))
        assert [entry.cause for entry in states.read(NAME).entries] == [
            "assigned in generation 1",
            "config changed",
        ]


def test_unused_causes_expire() -> None:
    states = create_states()
    for number in range(3 * MAX_PENDING_CAUSES):
        states.record_cause([TaskId(NAME, number)], Cause(Kind.CONFIG, "somebody", NOW_MS + 100 * number))
    earlier_task, latest_task = TaskId(NAME, 2 * MAX_PENDING_CAUSES), TaskId(NAME, 3 * MAX_PENDING_CAUSES - 1)
    assert len(states._pending_causes) <= MAX_PENDING_CAUSES  # noqa: SLF001 - tests the limit
    assert states.find_pending_cause(earlier_task, NOW_MS + 300 * MAX_PENDING_CAUSES) is None
    assert states.find_pending_cause(latest_task, NOW_MS + 300 * MAX_PENDING_CAUSES) is not None


def test_trace_is_truncated_and_scrubbed() -> None:
    secrets.add("hunter2-hunter2")
    states = create_states()
    lines = "\n".join(f"  at line {number}" for number in range(50))
    entry = add(states, T0, status(State.FAILED, trace=f"OSError: no hunter2-hunter2\n{lines}"))
    assert entry is not None
    assert entry.cause == "OSError: no [hidden]"
    assert entry.trace is not None
    assert entry.trace.splitlines()[0] == "OSError: no [hidden]"
    assert len(entry.trace.splitlines()) == 11
    long_entry = add(states, T1, status(State.FAILED, trace="é" * 1_000_000))
    assert long_entry is not None
    assert long_entry.trace is not None
    assert len(long_entry.trace.encode()) <= TRACE_BYTES


@given(st.lists(st.tuples(st.integers(0, 5), st.text(max_size=3_000)), max_size=40))
def test_entries_are_limited_in_bytes(failures: list[tuple[int, str]]) -> None:
    states = States(8_000, 20_000)
    for number, trace in failures:
        add(states, TaskId(ConnectorName(f"c{number % 3}"), number), status(State.FAILED, trace=trace))
    content = [states.read(ConnectorName(f"c{number}")).entries for number in range(3)]
    assert all(sum(entry.size for entry in entries) <= 8_000 for entries in content)
    assert sum(entry.size for entries in content for entry in entries) <= 20_000


class TestLaterHerder:
    """Tests for a herder that replays all records, some of which an earlier herder has added to the journal."""

    RECORDS = (
        status(State.RUNNING, 1),
        status(State.UNASSIGNED, 2),
        status(State.RUNNING, 3, generation=2),
        None,
        status(State.RUNNING, 5, generation=3),
        status(State.FAILED, 6, trace="OSError: x"),
        status(State.RUNNING, 7, generation=3),
    )

    @pytest.mark.parametrize("read_count", range(1, 8))
    @pytest.mark.parametrize("is_compacted", [False, True])
    def test_replay_neither_loses_nor_duplicates_states(self, read_count: int, *, is_compacted: bool) -> None:
        expected_states, states = create_states(), create_states()
        for record in self.RECORDS:
            add(expected_states, T0, record)
        for record in self.RECORDS[:read_count]:
            add(states, T0, record)
        # After a compaction, the latest status that was read may be absent.
        first = read_count if is_compacted and read_count < len(self.RECORDS) else 0
        replay(states, self.RECORDS[first:], first=first)
        for instance, record, at_ms in states.take_missed_statuses():
            states.add(instance, record, at_ms, now_ms=NOW_MS)
        # The history of a removed instance is dropped, so that its next state is its first state.
        if self.RECORDS[read_count - 1] is None:
            expected = recorded_states(expected_states)[:read_count]
            assert recorded_states(states) == expected
            return
        assert recorded_states(states) == recorded_states(expected_states)
        assert states.take_missed_statuses() == []

    def test_restored_instance_is_recorded(self) -> None:
        states = create_states()
        for record in self.RECORDS[:4]:
            add(states, T0, record)
        replay(states, self.RECORDS)
        assert states.take_missed_statuses() == []
        assert states.add_stored_status(T0, status(State.RUNNING, 7), now_ms=NOW_MS)
        assert recorded_states(states)[-2:] == [(0, "REMOVED"), (0, "RUNNING")]

    def test_records_before_the_journal_are_not_recorded(self) -> None:
        states = create_states()
        replay(states, self.RECORDS)
        assert states.take_missed_statuses() == []

    def test_equal_status_with_another_time_is_recorded(self) -> None:
        states = create_states()
        add(states, T0, status(State.RUNNING, 1))
        replay(states, [status(State.RUNNING, 1), status(State.UNASSIGNED, 2), status(State.RUNNING, 3)])
        assert [
            missed_status.state for _, missed_status, _ in states.take_missed_statuses() if missed_status
        ] == [
            State.UNASSIGNED,
            State.RUNNING,
        ]


def test_stored_state_is_recorded_once() -> None:
    states = create_states()
    assert states.add_stored_status(T0, status(State.RUNNING, -5_000), now_ms=NOW_MS)
    assert not states.add_stored_status(T0, status(State.RUNNING, -5_000), now_ms=NOW_MS)
    add(states, T1, status(State.RUNNING))
    assert not states.add_stored_status(T1, status(State.RUNNING), now_ms=NOW_MS)
    assert [(e.ms, e.cause) for e in states.read(NAME).entries] == [
        (NOW_MS - 5_000, STORED_CAUSE),
        (NOW_MS, "assigned in generation 1"),
    ]


def test_removed_instances_are_returned() -> None:
    states = create_states()
    add(states, T0, status(State.RUNNING))
    add(states, T1, status(State.RUNNING))
    assert states.find_removed_instances([T1, NAME]) == [T0]


def test_state_without_a_time_has_the_time_of_reading() -> None:
    states = create_states()
    add(states, T0, replace(status(State.RUNNING), written_ms=-1))
    assert states.read(NAME).entries[0].ms == NOW_MS + 500
