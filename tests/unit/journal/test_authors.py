"""Tests that the effect of a request is attributed once, to the client that sent the request to this worker."""

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
    ConnectorDeleted,
    Effect,
    InstanceRestarted,
    OffsetsChanged,
    TargetStateSet,
)

NAME = ConnectorName("orders")
REQUESTED_CONFIG = ConfigWritten(NAME, {"a": "1", "gone": None})
OBSERVED_CONFIG = ConfigWritten(NAME, {"a": "1", "name": "orders"})


class Clock:
    """A wall clock set by a test."""

    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


@pytest.mark.parametrize(
    ("effect", "observed_effect"),
    [
        (REQUESTED_CONFIG, OBSERVED_CONFIG),
        (ConnectorDeleted(NAME), ConnectorDeleted(NAME)),
        (TargetStateSet(NAME, TargetState.PAUSED), TargetStateSet(NAME, TargetState.PAUSED)),
        (InstanceRestarted(TaskId(NAME, 1)), InstanceRestarted(TaskId(NAME, 1))),
        (InstanceRestarted(NAME, include_tasks=True), InstanceRestarted(NAME, include_tasks=True)),
        (OffsetsChanged(NAME), OffsetsChanged(NAME)),
    ],
)
def test_author_of_an_effect_is_taken_once(effect: Effect, observed_effect: Effect) -> None:
    authors = Authors(Clock())
    with authors.asking(effect, "PUT from 10.0.0.7"):
        assert authors.take(observed_effect) == "PUT from 10.0.0.7"
        assert authors.take(observed_effect) is None


@pytest.mark.parametrize(
    ("effect", "observed_effect"),
    [
        (REQUESTED_CONFIG, ConfigWritten(NAME, {"a": "2"})),
        (REQUESTED_CONFIG, ConfigWritten(NAME, {"a": "1", "gone": "x"})),
        (REQUESTED_CONFIG, ConfigWritten(ConnectorName("other"), {"a": "1"})),
        (TargetStateSet(NAME, TargetState.PAUSED), TargetStateSet(NAME, TargetState.STOPPED)),
        (InstanceRestarted(NAME), InstanceRestarted(NAME, include_tasks=True)),
        (InstanceRestarted(TaskId(NAME, 1)), InstanceRestarted(TaskId(NAME, 2))),
        (ConnectorDeleted(NAME), REQUESTED_CONFIG),
    ],
)
def test_author_is_not_taken_for_a_different_effect(effect: Effect, observed_effect: Effect) -> None:
    authors = Authors(Clock())
    with authors.asking(effect, "somebody"):
        assert authors.take(observed_effect) is None


def test_rejected_request_is_removed() -> None:
    authors = Authors(Clock())
    with pytest.raises(BadRequest), authors.asking(REQUESTED_CONFIG, "refused"):
        raise BadRequest("no")
    assert authors.take(OBSERVED_CONFIG) is None


@pytest.mark.parametrize("error", [TimedOut("later"), ActorDied("the herder died"), StoreError("unknown")])
def test_request_with_an_unknown_result_is_kept(error: Exception) -> None:
    authors = Authors(Clock())
    with pytest.raises(type(error)), authors.asking(REQUESTED_CONFIG, "somebody"):
        raise error
    assert authors.take(OBSERVED_CONFIG) == "somebody"


@pytest.mark.parametrize(
    ("after_ms", "author"), [(FORWARDED_TIMEOUT_MS, "forwarded"), (FORWARDED_TIMEOUT_MS + 1, None)]
)
def test_forwarded_request_is_kept_briefly_after_its_response(after_ms: int, author: str | None) -> None:
    clock = Clock()
    authors = Authors(clock)
    with authors.asking(REQUESTED_CONFIG, "forwarded") as keep_author:
        clock.now_ms = 1_000
        keep_author()
    clock.now_ms += after_ms
    assert authors.take(OBSERVED_CONFIG) == author


def test_completed_request_is_removed() -> None:
    authors = Authors(Clock())
    with authors.asking(REQUESTED_CONFIG, "somebody"):
        pass
    assert authors.take(OBSERVED_CONFIG) is None


def test_request_without_a_response_expires() -> None:
    clock = Clock()
    authors = Authors(clock)
    with authors.asking(REQUESTED_CONFIG, "somebody"):
        clock.now_ms = REQUEST_TIMEOUT_MS + 1
        assert authors.take(OBSERVED_CONFIG) is None


def test_equal_requests_are_matched_in_order() -> None:
    authors = Authors(Clock())
    with authors.asking(REQUESTED_CONFIG, "one"), authors.asking(REQUESTED_CONFIG, "two"):
        assert [authors.take(OBSERVED_CONFIG), authors.take(OBSERVED_CONFIG)] == ["one", "two"]


def test_requests_without_an_effect_are_not_recorded() -> None:
    with Authors(Clock()).asking(None, "somebody") as keep_author:
        keep_author()


def test_number_of_authors_is_limited() -> None:
    authors = Authors(Clock())
    for number in range(3 * MAX_AUTHORS):
        with authors.asking(ConnectorDeleted(ConnectorName(f"c{number}")), str(number)) as keep_author:
            keep_author()
    assert authors.take(ConnectorDeleted(ConnectorName(f"c{2 * MAX_AUTHORS - 1}"))) is None
    assert authors.take(ConnectorDeleted(ConnectorName(f"c{2 * MAX_AUTHORS}"))) == str(2 * MAX_AUTHORS)
