"""Tests for the descriptions of rebalances that a worker stores."""

from __future__ import annotations

from dataclasses import replace

from kraal.cluster.views.rebalances import (
    MAX_REASON_LENGTH,
    MAX_REBALANCES,
    Rebalance,
    describe_rebalance,
    with_latest,
)
from kraal.core.ids import Generation
from tests.fakes.cluster.static_plans import Leader

URL = "http://w1:8083/"


def test_leader_stores_the_reason_and_delay_of_its_plan() -> None:
    leader = Leader(c1=1)
    leader.join("w1")
    plan = replace(leader.rebalance(), why="joined: a", delay_ms=7)
    rebalance = describe_rebalance(plan, generation=Generation(3), leader_url=URL, now_ms=5)
    assert rebalance.to_json() == {
        "generation": 3, "completed_ms": 5, "leader": URL, "reason": "joined: a", "delay_ms": 7,
    }  # fmt: skip


def test_follower_stores_no_reason_or_delay() -> None:
    rebalance = describe_rebalance(None, generation=Generation(3), leader_url=URL, now_ms=5)
    assert rebalance.to_json() == {
        "generation": 3, "completed_ms": 5, "leader": URL, "reason": None, "delay_ms": None,
    }  # fmt: skip


def test_long_reason_is_truncated() -> None:
    leader = Leader(c1=1)
    leader.join("w1")
    plan = leader.rebalance()

    def stored_reason(why: str) -> str | None:
        rebalance = describe_rebalance(
            replace(plan, why=why), generation=Generation(1), leader_url=URL, now_ms=1
        )
        return rebalance.reason

    assert stored_reason("x" * MAX_REASON_LENGTH) == "x" * MAX_REASON_LENGTH
    assert stored_reason("x" * 100_000) == "x" * (MAX_REASON_LENGTH - 1) + "…"


def test_latest_rebalance_is_first_and_oldest_is_dropped() -> None:
    rebalances: tuple[Rebalance, ...] = ()
    for number in range(MAX_REBALANCES + 2):
        latest = describe_rebalance(None, generation=Generation(number), leader_url=URL, now_ms=number)
        rebalances = with_latest(rebalances, latest)
    assert [rebalance.generation for rebalance in rebalances] == list(range(MAX_REBALANCES + 1, 1, -1))
