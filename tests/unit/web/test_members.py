"""Tests for the lookup of group members from the coordinator and from the leader's plan."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from kraal.cluster.assignment.leader import GroupPlan
from kraal.cluster.assignment.rebalance import AssignorState
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.errors import StoreError
from kraal.core.ids import Generation, WorkerId
from web.members import Members

A, B = WorkerId("a:1"), WorkerId("b:2")
FIRST_GENERATION = Snapshot(worker_id=A, generation=Generation(1), leader_url="http://b:2/")
SECOND_GENERATION = replace(FIRST_GENERATION, generation=Generation(2))


class Coordinator:
    """Fake coordinator that returns one of `results` per call, in order."""

    def __init__(self, *results: Sequence[str] | StoreError) -> None:
        self.results = [*results]

    def __call__(self) -> Future[Sequence[str]]:
        future: Future[Sequence[str]] = Future()
        result = self.results.pop(0)
        if isinstance(result, StoreError):
            future.set_exception(result)
        else:
            future.set_result(result)
        return future


async def test_members_are_looked_up_once_per_generation() -> None:
    coordinator = Coordinator(["http://a:1/", "https://b:2/"], ["http://a:1/"])
    members = Members(coordinator)
    for _ in range(2):
        assert await members.urls(FIRST_GENERATION) == {A: "http://a:1/", B: "https://b:2/"}
    assert await members.urls(SECOND_GENERATION) == {A: "http://a:1/"}


async def test_members_are_looked_up_again_after_an_empty_or_failed_lookup() -> None:
    members = Members(Coordinator([], StoreError("no coordinator"), ["http://a:1/"]))
    assert [await members.urls(FIRST_GENERATION) for _ in range(3)] == [{}, {}, {A: "http://a:1/"}]


async def test_leader_returns_the_members_in_its_plan() -> None:
    plan = GroupPlan(assignments={}, state=AssignorState(), owners={}, urls={"m": "http://b:2/"})
    assert await Members().urls(replace(FIRST_GENERATION, plan=plan)) == {B: "http://b:2/"}
    assert await Members().urls(FIRST_GENERATION) == {}
