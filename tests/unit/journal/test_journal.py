"""The facade: who is told of what, what several herders record, and the size of everything."""

from __future__ import annotations

import logging
from contextvars import copy_context

import pytest

from kraal.core.ids import ConnectorName, Generation, Instance, State, TaskId, WorkerId
from kraal.core.logging import about
from kraal.journal.causes import Cause, Kind
from kraal.journal.configs import Written
from kraal.journal.events import EventKind
from kraal.journal.journal import Journal
from kraal.protocol.status_records import Status

NAME = ConnectorName("numbers")
T0 = TaskId(NAME, 0)


def journal(max_bytes: int = 48 * 1024 * 1024) -> Journal:
    return Journal(lambda: 1_000, max_bytes)


def status(state: State, ms: int = 1, generation: int = 0) -> Status:
    return Status(state=state, worker_id=WorkerId("a:1"), generation=Generation(generation), written_ms=ms)


def line(made: Journal, text: str, name: ConnectorName = NAME) -> None:
    def run() -> None:
        about.set(f"task {name}-0")
        made.lines.handle(logging.makeLogRecord({"name": "x", "levelno": logging.INFO, "msg": text}))

    copy_context().run(run)


def write_all(made: Journal) -> None:
    made.event(EventKind.WORKER, "started")
    made.state(T0, status(State.RUNNING), 1)
    made.config(NAME, {"a": "1"}, {"a": "2"}, Written(1))
    line(made, "a line")


def test_listeners_receive_changes() -> None:
    made, told = journal(), list[tuple[str, ConnectorName | None]]()
    stop = made.listen(lambda kind, name: told.append((kind, name)))
    write_all(made)
    assert told == [
        ("events", None), ("history", NAME), ("events", None), ("configs", NAME), ("logs", NAME),
    ]  # fmt: skip
    stop()
    write_all(made)
    assert len(told) == 5


def test_failing_listener_is_removed_without_affecting_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made, told = journal(), list[str]()

    def broken(_kind: str, _name: ConnectorName | None) -> None:
        told.append("broken")
        raise RuntimeError("the loop is closed")

    made.listen(broken)
    made.listen(lambda kind, _: told.append(kind))
    write_all(made)
    assert told == ["broken", "events", "history", "events", "configs", "logs"]
    assert [record.message for record in caplog.records] == [
        "A listener of the journal failed; it is no longer called"
    ]


def test_a_listener_does_not_receive_its_own_lines() -> None:
    made, told = journal(), list[str]()

    def listener(kind: str, _name: ConnectorName | None) -> None:
        told.append(kind)
        line(made, "from a listener")

    made.listen(listener)
    line(made, "first")
    assert told == ["logs"]
    assert [each.message for each in made.lines.read(NAME).entries] == ["first", "from a listener"]


def test_states_have_the_reason_of_their_rebalance() -> None:
    made = journal()
    made.rebalanced(7, "b:1 left")
    made.state(T0, status(State.RUNNING, generation=7), 1)
    [entry] = made.states.read(NAME).entries
    assert entry.cause == "assigned in generation 7: b:1 left"
    [event] = made.events.after(None, 10)
    assert event.text == "task numbers-0 RUNNING on a:1: assigned in generation 7: b:1 left"


def test_states_read_at_start_are_recorded_once_without_events() -> None:
    made = journal()
    statuses: dict[Instance, Status] = {NAME: status(State.RUNNING), T0: status(State.FAILED)}
    made.states_read(statuses)
    assert {(e.task, e.state, e.cause) for e in made.states.read(NAME).entries} == {
        (None, "RUNNING", "as stored"),
        (0, "FAILED", "as stored"),
    }
    assert made.events.after(None, 10) == ()
    made.states_read(statuses)
    assert len(made.states.read(NAME).entries) == 2


def test_a_later_herder_records_what_was_removed_meanwhile() -> None:
    made = journal()
    statuses: dict[Instance, Status] = {NAME: status(State.RUNNING), T0: status(State.RUNNING)}
    made.states_read(statuses)
    made.note([T0], Cause(Kind.CONFIG, "somebody", 1_000))
    made.states_read({NAME: status(State.RUNNING)})
    [*_, last] = made.states.read(NAME).entries
    assert (last.task, last.state, last.cause, last.by) == (0, "REMOVED", "config changed", "somebody")


def test_journal_of_zero_bytes_records_no_entries_and_notifies_no_listeners() -> None:
    made, told = journal(0), list[str]()
    made.listen(lambda kind, _: told.append(kind))
    made.event(EventKind.WORKER, "started")
    made.note([T0], Cause(Kind.CONFIG, "", 1_000))
    made.state(T0, status(State.RUNNING), 1)
    made.states_read({NAME: status(State.RUNNING)})
    made.config(NAME, {"a": "1"}, {"a": "2"}, Written(1))
    line(made, "a line")
    assert told == []
    assert not made.states.read(NAME).entries
    assert not made.configs.read(NAME).entries
    assert not made.lines.read(NAME).entries
    assert not made.events.after(None, 10)


@pytest.mark.parametrize(("max_bytes", "kept"), [(48 * 1024 * 1024, ["a line"]), (0, [])])
def test_journal_collects_log_lines_unless_disabled(max_bytes: int, kept: list[str]) -> None:
    made, root = journal(max_bytes), logging.Logger("root")  # noqa: LOG001 - in no tree
    made.follow_log(root)

    def run() -> None:
        about.set(f"task {T0}")
        root.warning("a line")

    copy_context().run(run)
    assert [each.message for each in made.lines.read(NAME).entries] == kept
    assert len(root.handlers) == len(kept)


def test_all_contents_together_stay_within_the_limit() -> None:
    limit = 300_000
    made = journal(limit)
    for number in range(2_000):
        name = ConnectorName(f"c{number % 50}")
        made.state(TaskId(name, number), status(State.RUNNING, generation=number), 1)
        made.config(name, {"a": "x" * 500, "n": str(number)}, {"n": "0"}, Written(1))
        line(made, "y" * 300, name)
    names = [ConnectorName(f"c{number}") for number in range(50)]
    sizes = [
        sum(entry.size for name in names for entry in made.states.read(name).entries),
        sum(each.size for name in names for each in made.configs.read(name).entries),
        sum(each.size for name in names for each in made.lines.read(name).entries),
        sum(event.size for event in made.events.after(None, 10_000)),
    ]
    assert all(size > 3_000 for size in sizes)
    assert sum(sizes) <= limit
