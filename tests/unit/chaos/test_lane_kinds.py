"""Tests for the faults of lanes with a fake cluster."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from kraal.engine.source.write_paths import WritePath
from scripts.chaos_run.clients import Call
from scripts.chaos_run.faults import Faults
from scripts.chaos_run.kinds import lanes
from scripts.chaos_run.kinds.orders import Commands
from scripts.chaos_run.kinds.scene import Scene
from scripts.chaos_run.members import _LANE_MESSAGES, Member, Members
from scripts.chaos_run.pipes import Pipe
from scripts.chaos_run.schedule import HeavyFault, HeavyStep, schedule
from scripts.chaos_run.spark_ui import find_lane_jobs
from scripts.chaos_run.timeline import Timeline

DEADLINE_S = 1_000.0
BY_LANE = f"{WritePath.LANE.value}: at most 1000 records"
BY_JOB = f"{WritePath.COALESCED.value}: the plugin returns the records"


class FakeUi:
    """A fake Spark UI with jobs of lanes. Killed jobs stop unless `is_stubborn` is set."""

    def __init__(self, jobs: Sequence[int], actions: list[str]) -> None:
        self.jobs, self.is_stubborn = list(jobs), False
        self._actions = actions

    def list_lane_jobs(self) -> list[int]:
        return list(self.jobs)

    def kill(self, job: int) -> bool:
        self._actions.append(f"job {job} is killed")
        if not self.is_stubborn:
            self.jobs.remove(job)
        return True


class FakeScene:
    """A fake scene with one worker. Records actions."""

    def __init__(self, directory: Path) -> None:
        self.actions: list[str] = []
        self.write_path: str | None = BY_LANE
        self.age_ms: float | None = 100
        self.ui = FakeUi([3], self.actions)
        self.jvm = SimpleNamespace(kill=lambda: self.actions.append("JVM is killed"))
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
            hanging=Commands(directory / "hanging"),
            ask=self.ask,
            pipes=self.pipes,
            timeline=Timeline(),
            stopped=threading.Event(),
        )
        self.faults = Faults(cast("Members", self.members), Timeline(), self.scene)

    def ask(self, member: Member, request: Call) -> tuple[int, Any] | None:
        del member
        assert request.path.endswith("-source/status?expand=supervision&forward=false")
        task = {"id": 0, "last_batch_way": self.write_path, "last_batch_age_ms": self.age_ms}
        return 200, {"supervision": {"tasks": [task]}}

    def inject(self, fault: HeavyFault, pick: float = 0.9) -> None:
        self.faults.run_heavy_steps([HeavyStep(0.0, fault, 0, 0.0, pick)], DEADLINE_S)


@pytest.fixture
def fake_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeScene:
    result = FakeScene(tmp_path)
    monkeypatch.setattr(lanes, "JOB_STOP_TIMEOUT_S", 0.0)
    monkeypatch.setattr(lanes, "FREEZE_S", 0.0)
    monkeypatch.setattr(
        psutil.Process, "send_signal", lambda _, number: result.actions.append(signal.Signals(number).name)
    )
    return result


def test_lane_job_is_killed_and_counted(fake_scene: FakeScene, capsys: pytest.CaptureFixture[str]) -> None:
    fake_scene.inject(HeavyFault.KILL_LANE)
    assert fake_scene.actions == ["job 3 is killed"]
    assert fake_scene.faults.counts == {HeavyFault.KILL_LANE: 1}
    assert fake_scene.faults.failures == []
    assert fake_scene.scene.violations == []
    assert "2 source tasks, 2 through the lane, 0 waiting for a batch" in capsys.readouterr().out


def test_low_pick_kills_the_job_while_the_broker_is_frozen(fake_scene: FakeScene) -> None:
    fake_scene.inject(HeavyFault.KILL_LANE, lanes.FULL_LANE_SHARE - 0.1)
    assert fake_scene.actions == ["SIGSTOP", "job 3 is killed", "SIGCONT"]
    assert fake_scene.faults.counts == {HeavyFault.KILL_LANE: 1}
    picks = [step.pick < lanes.FULL_LANE_SHARE for step in schedule(1, 3_600.0, 3, ["kill-lane"]).heavy]
    assert {True, False} == set(picks)


def test_lane_that_survives_the_kill_of_its_job_is_reported(fake_scene: FakeScene) -> None:
    fake_scene.ui.is_stubborn = True
    fake_scene.inject(HeavyFault.KILL_LANE)
    [violation] = fake_scene.scene.violations
    assert "still runs 0 s after its job [3] was killed" in violation


def test_worker_without_a_lane_is_skipped(fake_scene: FakeScene) -> None:
    fake_scene.ui.jobs.clear()
    fake_scene.inject(HeavyFault.KILL_LANE, 0.0)
    assert fake_scene.actions == []
    assert fake_scene.faults.counts == {}


def test_jvm_is_killed_while_the_broker_is_frozen(
    fake_scene: FakeScene, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_scene.age_ms = lanes.WAITING_MS + 1
    fake_scene.inject(HeavyFault.KILL_FULL_JVM)
    assert fake_scene.actions == ["SIGSTOP", "JVM is killed", "SIGCONT"]
    assert fake_scene.faults.counts == {HeavyFault.KILL_FULL_JVM: 1}
    assert "2 through the lane, 2 waiting for a batch" in capsys.readouterr().out


@pytest.mark.parametrize("write_path", [BY_JOB, None])
def test_jvm_without_lane_batches_is_not_killed(fake_scene: FakeScene, write_path: str | None) -> None:
    fake_scene.write_path = write_path
    fake_scene.inject(HeavyFault.KILL_FULL_JVM)
    assert fake_scene.actions == []
    assert fake_scene.faults.counts == {}


def test_broker_resumes_if_the_jvm_cannot_be_killed(fake_scene: FakeScene) -> None:
    def raise_no_such_process() -> None:
        raise psutil.NoSuchProcess(1)

    fake_scene.jvm.kill = raise_no_such_process
    fake_scene.inject(HeavyFault.KILL_FULL_JVM)
    assert fake_scene.actions == ["SIGSTOP", "SIGCONT"]
    [failure] = fake_scene.faults.failures
    assert "kill -9 of a JVM" in failure


def test_pipe_without_lane_is_reported(fake_scene: FakeScene) -> None:
    assert lanes.find_pipe_without_lane(fake_scene.scene, fake_scene.pipes) == ""
    fake_scene.write_path = BY_JOB
    assert (
        lanes.find_pipe_without_lane(fake_scene.scene, fake_scene.pipes)
        == "the batches of small-0 do not go through a lane"
    )


def test_only_running_lane_jobs_are_returned() -> None:
    jobs = [
        {"jobId": 1, "status": "RUNNING", "jobGroup": "lane-1"},
        {"jobId": 2, "status": "FAILED", "jobGroup": "lane-1"},
        {"jobId": 3, "status": "RUNNING", "jobGroup": "numbers-0#1"},
        {"jobId": 4, "status": "RUNNING"},
    ]
    assert find_lane_jobs(jobs) == [1]


def test_lane_events_in_the_worker_log_are_counted(tmp_path: Path) -> None:
    members = Members(tmp_path, 1)
    [member] = members.all
    try:
        log = member.process.log
        messages = [*_LANE_MESSAGES.values(), _LANE_MESSAGES["started"]]
        log.write_text("".join(f"[x] INFO {message} y\n" for message in messages))
        assert member.count_lane_events() == {"started": 2, "ended": 1, "batch repeated by a job": 1}
    finally:
        member.proxy.close()
