"""Faults on fake members: actions, repairs, skipped steps and records."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

import pytest

from scripts.chaos_run.faults import MAX_DELAY_S, Faults
from scripts.chaos_run.members import Members
from scripts.chaos_run.proxy import Mode
from scripts.chaos_run.schedule import Actor, ActorStep, Heavy, HeavyStep
from scripts.chaos_run.timeline import Timeline

DEADLINE_S = 1_000.0


class FakeProcess:
    """A worker process that runs until it is killed."""

    def __init__(self, done: list[str]) -> None:
        self.alive, self.exit_code, self.pid = True, None, os.getpid()
        self._done = done

    def jvm(self) -> FakeProcess:
        return self

    def kill(self) -> None:
        self._done.append("JVM is killed")


class FakeMember:
    """Records its method calls."""

    def __init__(self, number: int, done: list[str]) -> None:
        self.url: str | None = "http://127.0.0.1:1"
        self.process = FakeProcess(done)
        self.data = f"data {number}"
        self.proxy = self
        self.actors = ["herder", "task c-0", "task c-1", "worker"]
        self.refuses_to_start = False
        self._number, self._done = number, done

    def kill(self) -> None:
        self._done.append(f"kill {self._number}")
        self.process.alive, self.url = False, None

    def start(self) -> None:
        assert not self.refuses_to_start, "it does not start\nits log"
        self._done.append(f"start {self._number}")
        self.process.alive, self.url = True, "http://127.0.0.1:2"

    def set_mode(self, mode: Mode) -> None:
        self._done.append(f"{mode.name} {self._number}")

    def control(self, **request: str) -> dict[str, Any]:
        if request["do"] == "list":
            return {"actors": dict.fromkeys(self.actors, 0)}
        self._done.append(f"{request['actor']} of {self._number}")
        return {"crashed": request["actor"]}


class FakeBroker:
    """Records its method calls."""

    pid: int | None = 1

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def start(self) -> str:
        self._done.append("broker starts")
        return ""

    def stop(self) -> bool:
        self._done.append("broker stops")
        return True

    def kill(self) -> bool:
        self._done.append("broker is killed")
        return True


class FakeDisk:
    """Records its method calls; may not support faults."""

    def __init__(self, done: list[str]) -> None:
        self._done = done
        self.can = True

    def fill(self) -> Callable[[], None] | None:
        return self._hurt("full disk")

    def protect(self, directory: str) -> Callable[[], None] | None:
        return self._hurt(f"{directory} is read-only")

    def _hurt(self, how: str) -> Callable[[], None] | None:
        if not self.can:
            return None
        self._done.append(how)
        return lambda: self._done.append("disk is well")


class FakeMembers:
    """Two fake members."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.all = [FakeMember(number, self.done) for number in range(2)]
        self.broker = FakeBroker(self.done)
        self.disk = FakeDisk(self.done)


@pytest.fixture
def members() -> FakeMembers:
    return FakeMembers()


@pytest.fixture
def faults(members: FakeMembers) -> Faults:
    return Faults(cast("Members", members), Timeline())


@pytest.mark.parametrize(
    ("fault", "done"),
    [
        (Heavy.KILL_WORKER, ["kill 1", "start 1"]),
        (Heavy.STOP_BROKER, ["broker stops", "broker starts"]),
        (Heavy.OUTAGE, ["broker stops", "broker starts"]),
        (Heavy.KILL_BROKER, ["broker is killed", "broker starts"]),
        (Heavy.DELAY, ["DELAY 1", "STRAIGHT 1"]),
        (Heavy.CUT, ["CUT 1", "STRAIGHT 1"]),
        (Heavy.HALF_OPEN, ["HALF_OPEN 1", "STRAIGHT 1"]),
        (Heavy.KILL_JVM, ["JVM is killed"]),
        (Heavy.FULL_DISK, ["full disk", "JVM is killed", "disk is well"]),
        (Heavy.READ_ONLY_DISK, ["data 1 is read-only", "JVM is killed", "disk is well"]),
    ],
)
def test_fault_is_injected_undone_and_counted(
    faults: Faults, members: FakeMembers, fault: Heavy, done: list[str]
) -> None:
    faults.run_heavy_steps([HeavyStep(0.0, fault, 1, 0.0)], DEADLINE_S)
    assert members.done == done
    assert faults.counts == {fault: 1}
    assert faults.failed == []


def test_impossible_faults_are_not_counted(faults: Faults, members: FakeMembers) -> None:
    members.disk.can = False
    faults.run_heavy_steps([HeavyStep(0.0, Heavy.FULL_DISK, 1, 0.0)], DEADLINE_S)
    assert members.done == []
    assert faults.counts == {}
    assert faults.failed == []


def test_faults_that_would_end_too_late_are_skipped(faults: Faults, members: FakeMembers) -> None:
    faults.run_heavy_steps(
        [HeavyStep(0.0, Heavy.KILL_WORKER, 0, 0.0), HeavyStep(0.0, Heavy.CUT, 0, 0.0)], 10.0
    )
    assert members.done == ["CUT 0", "STRAIGHT 0"]


def test_faults_that_cannot_be_undone_are_recorded(faults: Faults, members: FakeMembers) -> None:
    members.all[0].refuses_to_start = True
    faults.run_heavy_steps([HeavyStep(0.0, Heavy.KILL_WORKER, 0, 0.0)], DEADLINE_S)
    [failed] = faults.failed
    assert "kill -9 of a worker" in failed
    assert "it does not start" in failed


def test_unexpectedly_exited_worker_is_recorded_and_restarted(faults: Faults, members: FakeMembers) -> None:
    members.all[1].process.alive = False
    faults.revive()
    assert "exited with None" in faults.ended[0]
    assert members.done == ["kill 1", "start 1"]


def test_killed_worker_is_restarted_without_a_record(faults: Faults, members: FakeMembers) -> None:
    members.all[1].kill()
    members.broker.pid = None
    faults.revive()
    assert faults.ended == []
    assert members.done == ["kill 1", "broker starts", "start 1"]


@pytest.mark.parametrize(
    ("actor", "pick", "killed"),
    [
        (Actor.HERDER, 0.9, ["herder of 0"]),
        (Actor.TASK, 0.0, ["task c-0 of 0"]),
        (Actor.TASK, 0.9, ["task c-1 of 0"]),
        (Actor.WORKER, 0.0, ["worker of 0"]),
        (Actor.CONNECTOR, 0.0, []),
    ],
)
def test_actor_step_selects_an_actor_of_its_kind(
    faults: Faults, members: FakeMembers, actor: Actor, pick: float, killed: list[str]
) -> None:
    faults.run_actor_steps([ActorStep(0.0, actor, 0, pick)], DEADLINE_S)
    assert members.done == killed
    assert faults.counts.total() == len(killed)


def test_overdue_actor_steps_are_skipped(faults: Faults, members: FakeMembers) -> None:
    faults.run_actor_steps([ActorStep(-MAX_DELAY_S - 1, Actor.HERDER, 0, 0.0)], DEADLINE_S)
    assert members.done == []


def test_no_steps_are_executed_after_stop(faults: Faults, members: FakeMembers) -> None:
    faults.stop()
    faults.run_actor_steps([ActorStep(0.5, Actor.HERDER, 0, 0.0)], DEADLINE_S)
    faults.run_heavy_steps([HeavyStep(0.5, Heavy.CUT, 0, 0.0)], DEADLINE_S)
    assert members.done == []
