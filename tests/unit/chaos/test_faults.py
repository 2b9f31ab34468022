"""Tests for the injection of faults with fake members."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

import pytest

from scripts.chaos_run.faults import MAX_DELAY_S, Faults
from scripts.chaos_run.members import Members
from scripts.chaos_run.proxy import Mode
from scripts.chaos_run.schedule import Actor, ActorStep, HeavyFault, HeavyStep
from scripts.chaos_run.timeline import Timeline

DEADLINE_S = 1_000.0


class FakeProcess:
    """A fake worker process that runs until it is killed."""

    def __init__(self, actions: list[str]) -> None:
        self.alive, self.exit_code, self.pid = True, None, os.getpid()
        self._actions = actions

    def jvm(self) -> FakeProcess:
        return self

    def kill(self) -> None:
        self._actions.append("JVM is killed")


class FakeMember:
    """A fake member that records its method calls."""

    def __init__(self, number: int, actions: list[str]) -> None:
        self.url: str | None = "http://127.0.0.1:1"
        self.process = FakeProcess(actions)
        self.data = f"data {number}"
        self.proxy = self
        self.actors = ["herder", "task c-0", "task c-1", "worker"]
        self.refuses_to_start = False
        self._number, self._actions = number, actions

    def kill(self) -> None:
        self._actions.append(f"kill {self._number}")
        self.process.alive, self.url = False, None

    def start(self) -> None:
        assert not self.refuses_to_start, "it does not start\nits log"
        self._actions.append(f"start {self._number}")
        self.process.alive, self.url = True, "http://127.0.0.1:2"

    def set_mode(self, mode: Mode) -> None:
        self._actions.append(f"{mode.name} {self._number}")

    def control(self, **request: str) -> dict[str, Any]:
        if request["do"] == "list":
            return {"actors": dict.fromkeys(self.actors, 0)}
        self._actions.append(f"{request['actor']} of {self._number}")
        return {"crashed": request["actor"]}


class FakeBroker:
    """A fake broker that records its method calls."""

    pid: int | None = 1

    def __init__(self, actions: list[str]) -> None:
        self._actions = actions

    def start(self) -> str:
        self._actions.append("broker starts")
        return ""

    def stop(self) -> bool:
        self._actions.append("broker stops")
        return True

    def kill(self) -> bool:
        self._actions.append("broker is killed")
        return True


class FakeDisk:
    """A fake disk that records its method calls. It supports faults unless `is_supported` is false."""

    def __init__(self, actions: list[str]) -> None:
        self._actions = actions
        self.is_supported = True

    def fill(self) -> Callable[[], None] | None:
        return self._break("full disk")

    def protect(self, directory: str) -> Callable[[], None] | None:
        return self._break(f"{directory} is read-only")

    def _break(self, action: str) -> Callable[[], None] | None:
        if not self.is_supported:
            return None
        self._actions.append(action)
        return lambda: self._actions.append("disk is repaired")


class FakeMembers:
    """A fake cluster with two members."""

    def __init__(self) -> None:
        self.actions: list[str] = []
        self.all = [FakeMember(number, self.actions) for number in range(2)]
        self.broker = FakeBroker(self.actions)
        self.disk = FakeDisk(self.actions)


@pytest.fixture
def members() -> FakeMembers:
    return FakeMembers()


@pytest.fixture
def faults(members: FakeMembers) -> Faults:
    return Faults(cast("Members", members), Timeline())


@pytest.mark.parametrize(
    ("fault", "actions"),
    [
        (HeavyFault.KILL_WORKER, ["kill 1", "start 1"]),
        (HeavyFault.STOP_BROKER, ["broker stops", "broker starts"]),
        (HeavyFault.OUTAGE, ["broker stops", "broker starts"]),
        (HeavyFault.KILL_BROKER, ["broker is killed", "broker starts"]),
        (HeavyFault.DELAY, ["DELAY 1", "STRAIGHT 1"]),
        (HeavyFault.CUT, ["CUT 1", "STRAIGHT 1"]),
        (HeavyFault.HALF_OPEN, ["HALF_OPEN 1", "STRAIGHT 1"]),
        (HeavyFault.KILL_JVM, ["JVM is killed"]),
        (HeavyFault.FULL_DISK, ["full disk", "JVM is killed", "disk is repaired"]),
        (HeavyFault.READ_ONLY_DISK, ["data 1 is read-only", "JVM is killed", "disk is repaired"]),
    ],
)
def test_fault_is_injected_undone_and_counted(
    faults: Faults, members: FakeMembers, fault: HeavyFault, actions: list[str]
) -> None:
    faults.run_heavy_steps([HeavyStep(0.0, fault, 1, 0.0)], DEADLINE_S)
    assert members.actions == actions
    assert faults.counts == {fault: 1}
    assert faults.failures == []


def test_unsupported_faults_are_not_counted(faults: Faults, members: FakeMembers) -> None:
    members.disk.is_supported = False
    faults.run_heavy_steps([HeavyStep(0.0, HeavyFault.FULL_DISK, 1, 0.0)], DEADLINE_S)
    assert members.actions == []
    assert faults.counts == {}
    assert faults.failures == []


def test_faults_that_would_end_too_late_are_skipped(faults: Faults, members: FakeMembers) -> None:
    faults.run_heavy_steps(
        [HeavyStep(0.0, HeavyFault.KILL_WORKER, 0, 0.0), HeavyStep(0.0, HeavyFault.CUT, 0, 0.0)], 10.0
    )
    assert members.actions == ["CUT 0", "STRAIGHT 0"]


def test_faults_that_cannot_be_undone_are_recorded(faults: Faults, members: FakeMembers) -> None:
    members.all[0].refuses_to_start = True
    faults.run_heavy_steps([HeavyStep(0.0, HeavyFault.KILL_WORKER, 0, 0.0)], DEADLINE_S)
    [failure] = faults.failures
    assert "kill -9 of a worker" in failure
    assert "it does not start" in failure


def test_unexpectedly_exited_worker_is_recorded_and_restarted(faults: Faults, members: FakeMembers) -> None:
    members.all[1].process.alive = False
    faults.revive()
    assert "exited with None" in faults.unexpected_exits[0]
    assert members.actions == ["kill 1", "start 1"]


def test_killed_worker_is_restarted_without_a_record(faults: Faults, members: FakeMembers) -> None:
    members.all[1].kill()
    members.broker.pid = None
    faults.revive()
    assert faults.unexpected_exits == []
    assert members.actions == ["kill 1", "broker starts", "start 1"]


@pytest.mark.parametrize(
    ("actor", "pick", "killed_actors"),
    [
        (Actor.HERDER, 0.9, ["herder of 0"]),
        (Actor.TASK, 0.0, ["task c-0 of 0"]),
        (Actor.TASK, 0.9, ["task c-1 of 0"]),
        (Actor.WORKER, 0.0, ["worker of 0"]),
        (Actor.CONNECTOR, 0.0, []),
    ],
)
def test_actor_step_selects_an_actor_of_its_kind(
    faults: Faults, members: FakeMembers, actor: Actor, pick: float, killed_actors: list[str]
) -> None:
    faults.run_actor_steps([ActorStep(0.0, actor, 0, pick)], DEADLINE_S)
    assert members.actions == killed_actors
    assert faults.counts.total() == len(killed_actors)


def test_overdue_actor_steps_are_skipped(faults: Faults, members: FakeMembers) -> None:
    faults.run_actor_steps([ActorStep(-MAX_DELAY_S - 1, Actor.HERDER, 0, 0.0)], DEADLINE_S)
    assert members.actions == []


def test_no_steps_are_executed_after_stop(faults: Faults, members: FakeMembers) -> None:
    faults.stop()
    faults.run_actor_steps([ActorStep(0.5, Actor.HERDER, 0, 0.0)], DEADLINE_S)
    faults.run_heavy_steps([HeavyStep(0.5, HeavyFault.CUT, 0, 0.0)], DEADLINE_S)
    assert members.actions == []
