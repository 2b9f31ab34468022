"""Faults of lanes on a cluster of fakes: what is killed, what is undone, and what is left alone."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from kraal.engine.source.ways import Way
from scripts.chaos_run.clients import Call
from scripts.chaos_run.faults import Faults
from scripts.chaos_run.kinds import lanes
from scripts.chaos_run.kinds.orders import Orders
from scripts.chaos_run.kinds.scene import Scene
from scripts.chaos_run.members import _LANES, Member, Members
from scripts.chaos_run.pipes import Pipe
from scripts.chaos_run.schedule import Heavy, HeavyStep, schedule
from scripts.chaos_run.spark_ui import assign_lanes
from scripts.chaos_run.timeline import Timeline

DEADLINE_S = 1_000.0
BY_LANE = f"{Way.LANE.value}: at most 1000 records"
BY_JOB = f"{Way.COALESCED.value}: the plugin returns the records"


class FakeUi:
    """Spark's interface: jobs of lanes, which end when they are killed, unless they are stubborn."""

    def __init__(self, jobs: Sequence[int], done: list[str]) -> None:
        self.jobs, self.is_stubborn = list(jobs), False
        self._done = done

    def lanes(self) -> list[int]:
        return list(self.jobs)

    def kill(self, job: int) -> bool:
        self._done.append(f"job {job} is killed")
        if not self.is_stubborn:
            self.jobs.remove(job)
        return True


class World:
    """A scene with one worker, and what happens in it."""

    def __init__(self, directory: Path) -> None:
        self.done: list[str] = []
        self.way: str | None = BY_LANE
        self.age_ms: float | None = 100
        self.ui = FakeUi([3], self.done)
        self.jvm = SimpleNamespace(kill=lambda: self.done.append("JVM is killed"))
        process = SimpleNamespace(pid=1, alive=True, jvm=lambda: self.jvm)
        self.member = SimpleNamespace(process=process, ui=self.ui, url="http://127.0.0.1:1")
        self.members = SimpleNamespace(
            all=[self.member], broker=SimpleNamespace(pid=1), up=lambda: [self.member]
        )
        self.pipes = [Pipe(f"small-{n}", directory / f"{n}.in", directory / f"{n}.out") for n in range(2)]
        self.scene = Scene(
            members=cast("Members", self.members),
            slow=self.pipes[0],
            once=self.pipes[0],
            hanging=Orders(directory / "hanging"),
            ask=self.ask,
            pipes=self.pipes,
            timeline=Timeline(),
            stopped=threading.Event(),
        )
        self.faults = Faults(cast("Members", self.members), Timeline(), self.scene)

    def ask(self, member: Member, asked: Call) -> tuple[int, Any] | None:
        del member
        assert asked.path.endswith("-source/status?expand=supervision&forward=false")
        task = {"id": 0, "last_batch_way": self.way, "last_batch_age_ms": self.age_ms}
        return 200, {"supervision": {"tasks": [task]}}

    def hurt(self, fault: Heavy, pick: float = 0.9) -> None:
        self.faults.heavy([HeavyStep(0.0, fault, 0, 0.0, pick)], DEADLINE_S)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.setattr(lanes, "END_S", 0.0)
    monkeypatch.setattr(lanes, "FILL_S", 0.0)
    monkeypatch.setattr(
        psutil.Process, "send_signal", lambda _, number: made.done.append(signal.Signals(number).name)
    )
    return made


def test_the_job_of_a_lane_is_killed_and_counted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.hurt(Heavy.KILL_LANE)
    assert world.done == ["job 3 is killed"]
    assert world.faults.counts == {Heavy.KILL_LANE: 1}
    assert world.faults.failed == []
    assert world.scene.broken == []
    assert "2 source tasks, 2 of them through the lane, 0 wait for a batch" in capsys.readouterr().out


def test_half_of_the_lanes_are_killed_while_batches_wait_for_the_broker(world: World) -> None:
    world.hurt(Heavy.KILL_LANE, lanes.FULL - 0.1)
    assert world.done == ["SIGSTOP", "job 3 is killed", "SIGCONT"]
    assert world.faults.counts == {Heavy.KILL_LANE: 1}
    picks = [step.pick < lanes.FULL for step in schedule(1, 3_600.0, 3, ["kill-lane"]).heavy]
    assert {True, False} == set(picks)


def test_a_lane_that_survives_the_kill_of_its_job_is_noted(world: World) -> None:
    world.ui.is_stubborn = True
    world.hurt(Heavy.KILL_LANE)
    [broken] = world.scene.broken
    assert "still runs 0 s after its job [3] was killed" in broken


def test_a_worker_without_a_lane_is_left_alone(world: World) -> None:
    world.ui.jobs.clear()
    world.hurt(Heavy.KILL_LANE, 0.0)
    assert world.done == []
    assert world.faults.counts == {}


def test_a_jvm_is_killed_while_the_broker_stands_still(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.age_ms = lanes.WAITING_MS + 1
    world.hurt(Heavy.KILL_FULL_JVM)
    assert world.done == ["SIGSTOP", "JVM is killed", "SIGCONT"]
    assert world.faults.counts == {Heavy.KILL_FULL_JVM: 1}
    assert "2 of them through the lane, 2 wait for a batch" in capsys.readouterr().out


@pytest.mark.parametrize("way", [BY_JOB, None])
def test_a_jvm_whose_lane_is_not_in_use_lives(world: World, way: str | None) -> None:
    world.way = way
    world.hurt(Heavy.KILL_FULL_JVM)
    assert world.done == []
    assert world.faults.counts == {}


def test_the_broker_continues_when_the_jvm_cannot_be_killed(world: World) -> None:
    def gone() -> None:
        raise psutil.NoSuchProcess(1)

    world.jvm.kill = gone
    world.hurt(Heavy.KILL_FULL_JVM)
    assert world.done == ["SIGSTOP", "SIGCONT"]
    [failed] = world.faults.failed
    assert "kill -9 of a JVM" in failed


def test_names_a_pipe_whose_batches_do_not_go_through_a_lane(world: World) -> None:
    assert lanes.not_by_lane(world.scene, world.pipes) == ""
    world.way = BY_JOB
    assert lanes.not_by_lane(world.scene, world.pipes) == "the batches of small-0 do not go through a lane"


def test_only_running_jobs_of_lanes_are_found() -> None:
    jobs = [
        {"jobId": 1, "status": "RUNNING", "jobGroup": "lane-1"},
        {"jobId": 2, "status": "FAILED", "jobGroup": "lane-1"},
        {"jobId": 3, "status": "RUNNING", "jobGroup": "numbers-0#1"},
        {"jobId": 4, "status": "RUNNING"},
    ]
    assert assign_lanes(jobs) == [1]


def test_lane_events_in_the_worker_log_are_counted(tmp_path: Path) -> None:
    members = Members(tmp_path, 1)
    [member] = members.all
    try:
        log = member.process.log
        log.write_text("".join(f"[x] INFO {words} y\n" for words in [*_LANES.values(), _LANES["started"]]))
        assert member.lanes() == {"started": 2, "ended": 1, "batch repeated by a job": 1}
    finally:
        member.proxy.close()
