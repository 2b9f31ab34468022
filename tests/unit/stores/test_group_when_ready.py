"""A group is joined when the worker can work, or has waited long enough."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from kraal.protocol.group import Offer
from kraal.stores.group import GroupHooks
from kraal.stores.group_when_ready import GroupWhenReady


class Hooks:
    """Nobody calls them here."""

    def prepare(self, *, expelled: bool, away_s: float) -> Future[None]:
        raise NotImplementedError

    def offers(self) -> Sequence[Offer]:
        raise NotImplementedError

    def plan(
        self,
        *,
        protocol: str,
        leader: str,
        members: Mapping[str, bytes],
        generation: int,
        last_generation: int,
    ) -> Mapping[str, bytes]:
        raise NotImplementedError

    def joined(self, *, protocol: str, generation: int, member_id: str, assignment: bytes) -> None:
        raise NotImplementedError

    def lost(self, reason: str) -> None:
        raise NotImplementedError


class Recorded:
    """A group that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.started = threading.Event()

    def start(self, hooks: GroupHooks) -> None:
        assert isinstance(hooks, Hooks)
        self.told.append("start")
        self.started.set()

    def rejoin(self, reason: str) -> None:
        self.told.append(f"rejoin {reason}")

    def leave(self, reason: str) -> None:
        self.told.append(f"leave {reason}")

    def resume(self) -> None:
        self.told.append("resume")

    def close(self, timeout_s: float) -> None:
        self.told.append(f"close {timeout_s}")

    def heartbeat_age_s(self) -> float:
        return 1.5


class Spark:
    """Says when it is up."""

    def __init__(self) -> None:
        self.listeners: list[Callable[[], None]] = []

    def listen(self, go: Callable[[], None]) -> None:
        self.listeners.append(go)

    def up(self) -> None:
        for go in self.listeners:
            go()


def test_is_joined_once_when_the_worker_can_work() -> None:
    recorded, spark = Recorded(), Spark()
    group = GroupWhenReady(recorded, spark.listen)
    group.start(Hooks())
    assert recorded.told == []
    spark.up()
    spark.up()  # again after Spark died
    group.rejoin("r")
    group.close(3)
    assert recorded.told == ["start", "rejoin r", "close 3"]
    assert group.heartbeat_age_s() == 1.5


def test_is_joined_at_once_by_a_worker_that_can_work() -> None:
    recorded = Recorded()
    group = GroupWhenReady(recorded, lambda go: go())
    group.start(Hooks())
    assert recorded.told == ["start"]


def test_is_joined_in_the_end_by_a_worker_that_cannot_work() -> None:
    recorded, spark = Recorded(), Spark()
    GroupWhenReady(recorded, spark.listen, patience_s=0.01).start(Hooks())
    assert recorded.started.wait(10)
    spark.up()
    assert recorded.told == ["start"]


def test_who_left_meanwhile_stays_outside_until_resume() -> None:
    recorded, spark = Recorded(), Spark()
    group = GroupWhenReady(recorded, spark.listen)
    group.start(Hooks())
    group.leave("l")
    spark.up()
    assert recorded.told == ["leave l", "start", "leave l"]
    group.resume()
    assert recorded.told[-1] == "resume"


def test_a_closed_one_is_not_joined_any_more() -> None:
    recorded, spark = Recorded(), Spark()
    group = GroupWhenReady(recorded, spark.listen)
    group.start(Hooks())
    group.close(1)
    spark.up()
    assert recorded.told == ["close 1"]
