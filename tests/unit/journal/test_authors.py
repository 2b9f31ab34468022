"""Authors: the effect of a request is attributed to who sent it to this worker, once, and to nobody else."""

from __future__ import annotations

import pytest

from kraal.core.errors import ActorDied, BadRequest, StoreError, TimedOut
from kraal.core.ids import ConnectorName, TargetState, TaskId
from kraal.journal.authors import (
    FORWARDED_TIMEOUT_MS,
    MAX_AUTHORS,
    REQUEST_TIMEOUT_MS,
    Authors,
    ConfigWritten,
    Deleted,
    Effect,
    OffsetsChanged,
    Restarted,
    TargetSet,
)

NAME = ConnectorName("orders")
WRITTEN = ConfigWritten(NAME, {"a": "1", "gone": None})
SEEN = ConfigWritten(NAME, {"a": "1", "name": "orders"})


class Clock:
    """A wall clock that a test sets."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@pytest.mark.parametrize(
    ("effect", "read"),
    [
        (WRITTEN, SEEN),
        (Deleted(NAME), Deleted(NAME)),
        (TargetSet(NAME, TargetState.PAUSED), TargetSet(NAME, TargetState.PAUSED)),
        (Restarted(TaskId(NAME, 1)), Restarted(TaskId(NAME, 1))),
        (Restarted(NAME, include_tasks=True), Restarted(NAME, include_tasks=True)),
        (OffsetsChanged(NAME), OffsetsChanged(NAME)),
    ],
)
def test_an_effect_has_its_author_once(effect: Effect, read: Effect) -> None:
    authors = Authors(Clock())
    with authors.asking(effect, "PUT from 10.0.0.7"):
        assert authors.take(read) == "PUT from 10.0.0.7"
        assert authors.take(read) is None


@pytest.mark.parametrize(
    ("effect", "read"),
    [
        (WRITTEN, ConfigWritten(NAME, {"a": "2"})),
        (WRITTEN, ConfigWritten(NAME, {"a": "1", "gone": "x"})),
        (WRITTEN, ConfigWritten(ConnectorName("other"), {"a": "1"})),
        (TargetSet(NAME, TargetState.PAUSED), TargetSet(NAME, TargetState.STOPPED)),
        (Restarted(NAME), Restarted(NAME, include_tasks=True)),
        (Restarted(TaskId(NAME, 1)), Restarted(TaskId(NAME, 2))),
        (Deleted(NAME), WRITTEN),
    ],
)
def test_another_effect_has_another_author(effect: Effect, read: Effect) -> None:
    authors = Authors(Clock())
    with authors.asking(effect, "somebody"):
        assert authors.take(read) is None


def test_a_refused_request_has_no_effect() -> None:
    authors = Authors(Clock())
    with pytest.raises(BadRequest), authors.asking(WRITTEN, "refused"):
        raise BadRequest("no")
    assert authors.take(SEEN) is None


@pytest.mark.parametrize("error", [TimedOut("later"), ActorDied("the herder died"), StoreError("unknown")])
def test_a_request_whose_result_is_unknown_may_have_an_effect(error: Exception) -> None:
    authors = Authors(Clock())
    with pytest.raises(type(error)), authors.asking(WRITTEN, "somebody"):
        raise error
    assert authors.take(SEEN) == "somebody"


@pytest.mark.parametrize(
    ("after_ms", "by"), [(FORWARDED_TIMEOUT_MS, "forwarded"), (FORWARDED_TIMEOUT_MS + 1, None)]
)
def test_the_effect_of_a_forwarded_request_may_be_read_soon_after_its_answer(
    after_ms: int, by: str | None
) -> None:
    clock = Clock()
    authors = Authors(clock)
    with authors.asking(WRITTEN, "forwarded") as stay:
        clock.now_ms = 1_000
        stay()
    clock.now_ms += after_ms
    assert authors.take(SEEN) == by


def test_a_request_that_was_answered_here_has_had_its_effect() -> None:
    authors = Authors(Clock())
    with authors.asking(WRITTEN, "somebody"):
        pass
    assert authors.take(SEEN) is None


def test_a_request_without_an_answer_is_not_expected_for_ever() -> None:
    clock = Clock()
    authors = Authors(clock)
    with authors.asking(WRITTEN, "somebody"):
        clock.now_ms = REQUEST_TIMEOUT_MS + 1
        assert authors.take(SEEN) is None


def test_the_first_of_two_equal_requests_comes_first() -> None:
    authors = Authors(Clock())
    with authors.asking(WRITTEN, "one"), authors.asking(WRITTEN, "two"):
        assert [authors.take(SEEN), authors.take(SEEN)] == ["one", "two"]


def test_requests_without_an_effect_are_not_recorded() -> None:
    with Authors(Clock()).asking(None, "somebody") as stay:
        stay()


def test_authors_do_not_pile_up() -> None:
    authors = Authors(Clock())
    for number in range(3 * MAX_AUTHORS):
        with authors.asking(Deleted(ConnectorName(f"c{number}")), str(number)) as stay:
            stay()
    assert authors.take(Deleted(ConnectorName(f"c{2 * MAX_AUTHORS - 1}"))) is None
    assert authors.take(Deleted(ConnectorName(f"c{2 * MAX_AUTHORS}"))) == str(2 * MAX_AUTHORS)
