"""Polls of a task whose config or target state has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from typing_extensions import override

from kraal.engine.executor import JobLauncher, NoExecutor
from kraal.engine.read_gate import GatedExecutor


@dataclass
class Permission:
    """Whether records may be read, as a test decides."""

    may_read: bool = True

    def __call__(self) -> bool:
        return self.may_read


@dataclass
class Source(NoExecutor):
    """Finds one batch in each poll."""

    polls: list[bool] = field(default_factory=list)
    during: Callable[[], None] = lambda: None
    waits: bool = False
    polls_idle: bool = False
    runs_on: bool = False

    @override
    def poll(self, *, asked: bool) -> JobLauncher | None:  # type: ignore[override]
        self.polls.append(asked)
        self.during()
        number = len(self.polls)
        return (lambda _: launched.append(number)) if asked else None


launched: list[int] = []


@pytest.fixture(autouse=True)
def nothing_launched() -> None:
    launched.clear()


def poll(gate: GatedExecutor, *, asked: bool = True) -> list[int]:
    """Poll, launch the batch, and return the numbers of the polls whose batches were launched."""
    batch = gate.poll(asked=asked)
    if batch is not None:
        batch(lambda _: None)
    return [*launched]


def test_source_without_permission_is_not_polled() -> None:
    permission, source = Permission(), Source()
    gate = GatedExecutor(source, permission)
    assert poll(gate) == [1]
    permission.may_read = False
    assert poll(gate) == [1]
    assert source.polls == [True]
    permission.may_read = True
    assert poll(gate) == [1, 2]


def test_batch_of_a_poll_under_way_waits_for_permission() -> None:
    permission, source = Permission(), Source()
    gate = GatedExecutor(source, permission)
    source.during = lambda: setattr(permission, "may_read", False)
    assert poll(gate) == []
    assert poll(gate) == []
    permission.may_read = True
    source.during = lambda: None
    assert poll(gate) == [1], "no record is lost"
    assert poll(gate) == [1, 2]


@pytest.mark.parametrize("kind", ["polls_idle", "runs_on"])
def test_sink_and_stream_without_permission_are_polled_as_if_at_rest(kind: str) -> None:
    source = Source()
    setattr(source, kind, True)
    assert poll(GatedExecutor(source, Permission(may_read=False))) == []
    assert source.polls == [False]


def test_sink_without_permission_does_not_wait_for_records() -> None:
    permission = Permission()
    gate = GatedExecutor(Source(waits=True, polls_idle=True), permission)
    assert gate.waits
    permission.may_read = False
    assert not gate.waits
