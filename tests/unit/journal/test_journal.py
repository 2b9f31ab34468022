"""Tests for the journal, including its listeners, the records of several herders, and its total size."""

from __future__ import annotations

import logging
from contextvars import copy_context

import pytest

from kraal.core.ids import ConnectorName, Generation, Instance, State, TaskId, WorkerId
from kraal.core.logging import log_subject
from kraal.journal.causes import Cause, Kind
from kraal.journal.configs import ConfigWrite
from kraal.journal.events import EventKind
from kraal.journal.journal import Journal
from kraal.protocol.status_records import Status

NAME = ConnectorName("numbers")
T0 = TaskId(NAME, 0)


def journal(max_bytes: int = 48 * 1024 * 1024) -> Journal:
    return Journal(lambda: 1_000, max_bytes)


def status(state: State, ms: int = 1, generation: int = 0) -> Status:
    return Status(state=state, worker_id=WorkerId("a:1"), generation=Generation(generation), written_ms=ms)


def log_connector_line(recorder: Journal, text: str, name: ConnectorName = NAME) -> None:
    def run() -> None:
        log_subject.set(f"task {name}-0")
        recorder.lines.handle(logging.makeLogRecord({"name": "x", "levelno": logging.INFO, "msg": text}))

    copy_context().run(run)


def write_all(recorder: Journal) -> None:
    recorder.record_event(EventKind.WORKER, "started")
    recorder.record_state(T0, status(State.RUNNING), 1)
    recorder.record_config(NAME, {"a": "1"}, {"a": "2"}, ConfigWrite(1))
    log_connector_line(recorder, "a line")


def test_listeners_receive_changes() -> None:
    recorder, notifications = journal(), list[tuple[str, ConnectorName | None]]()
    stop_listening = recorder.listen(lambda kind, name: notifications.append((kind, name)))
    write_all(recorder)
    assert notifications == [
        ("events", None), ("history", NAME), ("events", None), ("configs", NAME), ("logs", NAME),
    ]  # fmt: skip
    stop_listening()
    write_all(recorder)
    assert len(notifications) == 5


def test_failing_listener_is_removed_without_affecting_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder, notifications = journal(), list[str]()

    def fail(_kind: str, _name: ConnectorName | None) -> None:
        notifications.append("broken")
        raise RuntimeError("the loop is closed")

    recorder.listen(fail)
    recorder.listen(lambda kind, _: notifications.append(kind))
    write_all(recorder)
    assert notifications == ["broken", "events", "history", "events", "configs", "logs"]
    assert [record.message for record in caplog.records] == [
        "Removed a journal listener that raised an error"
    ]


def test_listener_does_not_receive_its_own_lines() -> None:
    recorder, notifications = journal(), list[str]()

    def listener(kind: str, _name: ConnectorName | None) -> None:
        notifications.append(kind)
        log_connector_line(recorder, "from a listener")

    recorder.listen(listener)
    log_connector_line(recorder, "first")
    assert notifications == ["logs"]
    assert [line.message for line in recorder.lines.read(NAME).entries] == ["first", "from a listener"]


def test_states_contain_the_reason_of_their_rebalance() -> None:
    recorder = journal()
    recorder.record_rebalance_reason(7, "b:1 left")
    recorder.record_state(T0, status(State.RUNNING, generation=7), 1)
    [entry] = recorder.states.read(NAME).entries
    assert entry.cause == "assigned in generation 7: b:1 left"
    [event] = recorder.events.after(None, 10)
    assert event.text == "task numbers-0 RUNNING on a:1: assigned in generation 7: b:1 left"


def test_states_read_at_start_are_recorded_once_without_events() -> None:
    recorder = journal()
    statuses: dict[Instance, Status] = {NAME: status(State.RUNNING), T0: status(State.FAILED)}
    recorder.record_replayed_states(statuses)
    assert {(e.task, e.state, e.cause) for e in recorder.states.read(NAME).entries} == {
        (None, "RUNNING", "as stored"),
        (0, "FAILED", "as stored"),
    }
    assert recorder.events.after(None, 10) == ()
    recorder.record_replayed_states(statuses)
    assert len(recorder.states.read(NAME).entries) == 2


def test_later_herder_records_missed_removals() -> None:
    recorder = journal()
    statuses: dict[Instance, Status] = {NAME: status(State.RUNNING), T0: status(State.RUNNING)}
    recorder.record_replayed_states(statuses)
    recorder.record_cause([T0], Cause(Kind.CONFIG, "somebody", 1_000))
    recorder.record_replayed_states({NAME: status(State.RUNNING)})
    [*_, last_entry] = recorder.states.read(NAME).entries
    assert (last_entry.task, last_entry.state, last_entry.cause, last_entry.by) == (
        0,
        "REMOVED",
        "config changed",
        "somebody",
    )


def test_journal_of_zero_bytes_records_no_entries_and_notifies_no_listeners() -> None:
    recorder, notifications = journal(0), list[str]()
    recorder.listen(lambda kind, _: notifications.append(kind))
    recorder.record_event(EventKind.WORKER, "started")
    recorder.record_cause([T0], Cause(Kind.CONFIG, "", 1_000))
    recorder.record_state(T0, status(State.RUNNING), 1)
    recorder.record_replayed_states({NAME: status(State.RUNNING)})
    recorder.record_config(NAME, {"a": "1"}, {"a": "2"}, ConfigWrite(1))
    log_connector_line(recorder, "a line")
    assert notifications == []
    assert not recorder.states.read(NAME).entries
    assert not recorder.configs.read(NAME).entries
    assert not recorder.lines.read(NAME).entries
    assert not recorder.events.after(None, 10)


@pytest.mark.parametrize(("max_bytes", "expected"), [(48 * 1024 * 1024, ["a line"]), (0, [])])
def test_journal_collects_log_lines_unless_disabled(max_bytes: int, expected: list[str]) -> None:
    recorder, root = journal(max_bytes), logging.Logger("root")  # noqa: LOG001 - outside the hierarchy
    recorder.follow_log(root)

    def run() -> None:
        log_subject.set(f"task {T0}")
        root.warning("a line")

    copy_context().run(run)
    assert [line.message for line in recorder.lines.read(NAME).entries] == expected
    assert len(root.handlers) == len(expected)


def test_all_contents_are_limited_in_bytes() -> None:
    limit = 300_000
    recorder = journal(limit)
    for number in range(2_000):
        name = ConnectorName(f"c{number % 50}")
        recorder.record_state(TaskId(name, number), status(State.RUNNING, generation=number), 1)
        recorder.record_config(name, {"a": "x" * 500, "n": str(number)}, {"n": "0"}, ConfigWrite(1))
        log_connector_line(recorder, "y" * 300, name)
    names = [ConnectorName(f"c{number}") for number in range(50)]
    sizes = [
        sum(entry.size for name in names for entry in recorder.states.read(name).entries),
        sum(version.size for name in names for version in recorder.configs.read(name).entries),
        sum(line.size for name in names for line in recorder.lines.read(name).entries),
        sum(event.size for event in recorder.events.after(None, 10_000)),
    ]
    assert all(size > 3_000 for size in sizes)
    assert sum(sizes) <= limit
