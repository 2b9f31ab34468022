"""Tests for the faults in the package `kinds` with a fake cluster."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from kraal.connectors.spark.sink import STAGING
from scripts.chaos_run.clients import Call
from scripts.chaos_run.faults import Faults
from scripts.chaos_run.kinds import moving, overlap, pools, targets
from scripts.chaos_run.kinds.orders import Commands
from scripts.chaos_run.kinds.scene import Scene
from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.pipes import HANGING_CONNECTOR, Pipe, Target
from scripts.chaos_run.schedule import HeavyFault, HeavyStep
from scripts.chaos_run.timeline import Timeline

DEADLINE_S = 1_000.0
DELETE_REQUEST = ("DELETE", f"/connectors/{HANGING_CONNECTOR}")


class FakeMember:
    """A fake worker that accepts all requests. It is also its own `process`, with the PID of the test process."""

    process: Any
    worker_id = "127.0.0.1:1"
    url: str | None = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.process = self
        self.pid = os.getpid()
        self.alive = True
        self.signals: list[signal.Signals] = []
        self.requests: list[dict[str, Any]] = []
        self.can_suspend = True

    def send_signal(self, number: signal.Signals) -> None:
        self.signals.append(number)

    def jvm(self) -> FakeMember:
        return self

    def control(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        return {} if self.can_suspend else {"error": "do"}


class FakeMembers:
    """A fake cluster with one member."""

    def __init__(self) -> None:
        self.all = [FakeMember()]
        self.broker = self
        self.bootstrap = "127.0.0.1:1"
        self.pid = 1

    def up(self) -> list[FakeMember]:
        return self.all


class FakeScene:
    """A fake scene that records requests and signals."""

    def __init__(self, directory: Path) -> None:
        self.members = FakeMembers()
        self.requests: list[tuple[str, str]] = []
        self.responses: dict[str, tuple[int, Any]] = {}
        self.signals: list[signal.Signals] = []
        self.slow, self.once = (
            Pipe(
                name,
                directory / f"{name}.in",
                directory / name,
                target,
                Commands(directory / f"{name}.orders"),
            )
            for name, target in (("slow", Target.SLOW_FILE), ("once", Target.FILES))
        )
        self.once.sink_file.mkdir()
        self.scene = Scene(
            members=cast("Members", self.members),
            slow=self.slow,
            once=self.once,
            hanging=Commands(directory / HANGING_CONNECTOR),
            ask=self.ask,
            pipes=[self.slow, self.once],
            timeline=Timeline(),
            stopped=threading.Event(),
        )

    def ask(self, member: Member, request: Call) -> tuple[int, Any] | None:
        del member
        self.requests.append((request.method, request.path))
        return self.responses.get(
            request.path, (200, {"tasks": [{"worker_id": self.members.all[0].worker_id}]})
        )

    def add_hanging_calls(self, commands: Commands, calls: int = 1) -> None:
        for number in range(calls):
            commands.prefix.with_name(f"{commands.prefix.name}.hanging.{os.getpid()}.{number}").touch()

    def remove_hanging_calls(self, commands: Commands) -> None:
        for path in commands.prefix.parent.glob(f"{commands.prefix.name}.hanging.*"):
            path.unlink()

    def list_commands(self) -> list[str]:
        all_commands = (self.slow.commands, self.once.commands, self.scene.hanging)
        return sorted(
            path.name
            for commands in all_commands
            for path in commands.prefix.parent.glob(f"{commands.prefix.name}.*")
            if ".hanging." not in path.name and not path.name.endswith(".in")
        )


@pytest.fixture
def fake_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeScene:
    result = FakeScene(tmp_path)
    monkeypatch.setattr(psutil.Process, "send_signal", lambda _, number: result.signals.append(number))
    for module, name in (
        (targets, "HANG_TIMEOUT_S"),
        (overlap, "HANG_TIMEOUT_S"),
        (pools, "HANG_TIMEOUT_S"),
        (pools, "RESTART_TIMEOUT_S"),
        (pools, "RELEASE_TIMEOUT_S"),
        (pools, "PROGRESS_TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, 0.0)
    monkeypatch.setattr(overlap, "SUCCESSOR_TIMEOUT_S", 0.0)
    return result


def make_step(fault: HeavyFault, hold_s: float = 0.0, pick: float = 0.0) -> HeavyStep:
    return HeavyStep(0.0, fault, 0, hold_s, pick)


def set_committed_offsets(monkeypatch: pytest.MonkeyPatch, *offsets: Mapping[int, int]) -> None:
    remaining_offsets = iter(offsets)
    monkeypatch.setattr(targets, "get_committed", lambda *_: next(remaining_offsets))


@pytest.mark.parametrize(
    ("offsets", "lines", "violations"),
    [
        (({0: 5}, {0: 5}), "t-0 5 9\nt-0 5 11\n", ["t-0 5 2 times"]),
        (({0: 5}, {0: 9}), "t-0 5 9\nt-0 5 11\n", []),
        (({0: 5}, {0: 5}), "t-0 5 9\n", []),
    ],
)
def test_slow_sink_that_repeats_a_batch_is_reported(
    fake_scene: FakeScene,
    monkeypatch: pytest.MonkeyPatch,
    offsets: tuple[Mapping[int, int], ...],
    lines: str,
    violations: list[str],
) -> None:
    set_committed_offsets(monkeypatch, *offsets)
    undo = targets.slow_down(fake_scene.scene, make_step(HeavyFault.SLOW_TARGET))
    assert undo is not None
    assert fake_scene.list_commands() == ["slow.orders.sleep"]
    fake_scene.slow.commands.prefix.with_name("slow.orders.written").write_text(lines)
    undo()
    assert fake_scene.list_commands() == ["slow.orders.written"]
    assert [text.rpartition(": ")[2] for text in fake_scene.scene.violations] == violations


def test_target_hangs_until_it_is_released(fake_scene: FakeScene) -> None:
    fake_scene.add_hanging_calls(fake_scene.slow.commands)
    undo = targets.hang(fake_scene.scene, make_step(HeavyFault.HANG_TARGET))
    assert undo is not None
    assert fake_scene.list_commands() == ["slow.orders.hang"]
    undo()
    assert fake_scene.list_commands() == []


@pytest.mark.parametrize(
    "fault", [HeavyFault.HANG_TARGET, HeavyFault.OVERLAP_RESTART, HeavyFault.OVERLAP_FROZEN]
)
def test_fault_without_a_batch_withdraws_its_commands(fake_scene: FakeScene, fault: HeavyFault) -> None:
    faults = Faults(cast("Members", fake_scene.members), Timeline(), fake_scene.scene)
    faults.run_heavy_steps([make_step(fault)], DEADLINE_S)
    assert fake_scene.list_commands() == []
    assert faults.counts == {}
    assert fake_scene.signals == []


def test_release_withdraws_all_commands(fake_scene: FakeScene) -> None:
    fake_scene.slow.commands.sleep(1.0)
    fake_scene.once.commands.hang_one()
    fake_scene.scene.hanging.hang()
    Faults(cast("Members", fake_scene.members), Timeline(), fake_scene.scene).revive()
    assert fake_scene.list_commands() == []


def test_previous_run_resumes_when_its_successor_writes(fake_scene: FakeScene) -> None:
    fake_scene.add_hanging_calls(fake_scene.once.commands)
    undo = overlap.restart(fake_scene.scene, make_step(HeavyFault.OVERLAP_RESTART))
    assert undo is not None
    assert fake_scene.requests == [("POST", "/connectors/once-sink/restart?includeTasks=true")]
    assert fake_scene.list_commands() == ["once.orders.hang-one"]
    undo()
    assert fake_scene.list_commands() == []


def test_worker_is_frozen_while_its_task_hangs(fake_scene: FakeScene) -> None:
    fake_scene.add_hanging_calls(fake_scene.once.commands)
    undo = overlap.freeze(fake_scene.scene, make_step(HeavyFault.OVERLAP_FROZEN))
    assert undo is not None
    assert fake_scene.signals == [signal.SIGSTOP]
    undo()
    assert fake_scene.signals[0] == signal.SIGSTOP
    assert set(fake_scene.signals[1:]) == {signal.SIGCONT}
    assert fake_scene.list_commands() == []


def test_previous_run_resumes_while_its_successor_has_a_staged_batch(
    fake_scene: FakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_scene.add_hanging_calls(fake_scene.once.commands)
    undo = overlap.freeze(fake_scene.scene, make_step(HeavyFault.OVERLAP_FROZEN))
    assert undo is not None
    fake_scene.members.all[0].worker_id = "127.0.0.1:2"
    fake_scene.members.all.append(FakeMember())
    monkeypatch.setattr(overlap, "FREEZE_S", 0.0)
    staged_batch = fake_scene.once.sink_file / STAGING / "owner" / "batch"
    staged_batch.mkdir(parents=True)
    (staged_batch / "_SUCCESS").touch()
    fake_scene.responses["/connectors/once-sink/status"] = (200, {"tasks": [{"worker_id": "127.0.0.1:1"}]})
    undo()
    stop, cont = signal.SIGSTOP, signal.SIGCONT
    assert fake_scene.signals == [stop, stop, cont, cont, cont], (
        "previous, successor, previous, successor, previous"
    )


def test_suspend_moves_the_clock_and_stops_both_processes(fake_scene: FakeScene) -> None:
    faults = Faults(cast("Members", fake_scene.members), Timeline(), fake_scene.scene)
    faults.run_heavy_steps([make_step(HeavyFault.SUSPEND, 0.5)], DEADLINE_S)
    assert fake_scene.members.all[0].requests == [{"do": "suspend", "seconds": 0.5}]
    assert fake_scene.signals == [signal.SIGSTOP, signal.SIGCONT], "sent to Python"
    assert fake_scene.members.all[0].signals == fake_scene.signals, "sent to the JVM"
    assert faults.counts == {HeavyFault.SUSPEND: 1}
    assert faults.failures == []


def test_worker_without_suspend_command_is_not_stopped(fake_scene: FakeScene) -> None:
    fake_scene.members.all[0].can_suspend = False
    faults = Faults(cast("Members", fake_scene.members), Timeline(), fake_scene.scene)
    faults.run_heavy_steps([make_step(HeavyFault.SUSPEND)], DEADLINE_S)
    assert faults.counts == {}


PICKS = {name: (number + 0.5) / len(pools.VARIANTS) for number, name in enumerate(sorted(pools.VARIANTS))}
"""A value of `pick` for each variant."""


@pytest.mark.parametrize("call", ["batch", "start"])
@pytest.mark.parametrize("action", ["delete", "restart"])
def test_hanging_tasks_are_deleted_or_restarted_and_released(
    fake_scene: FakeScene, call: str, action: str
) -> None:
    fake_scene.add_hanging_calls(fake_scene.scene.hanging, pools.THREADS[call])
    undo = pools.exhaust(
        fake_scene.scene, make_step(HeavyFault.EXHAUST_POOL, 2.0, PICKS[f"{call}, {action}"])
    )
    assert undo is not None
    restart = ("POST", f"/connectors/{HANGING_CONNECTOR}/restart?includeTasks=true")
    assert fake_scene.requests == [
        ("PUT", f"/connectors/{HANGING_CONNECTOR}/config"),
        *([restart] if action == "restart" else []),
        DELETE_REQUEST,
    ]
    assert fake_scene.list_commands() == [f"{HANGING_CONNECTOR}.hang"]
    fake_scene.remove_hanging_calls(fake_scene.scene.hanging)
    undo()
    assert fake_scene.list_commands() == []
    assert fake_scene.requests[-1] == DELETE_REQUEST
    assert fake_scene.scene.violations == []


def test_calls_that_hang_after_release_are_reported(fake_scene: FakeScene) -> None:
    fake_scene.add_hanging_calls(fake_scene.scene.hanging, pools.THREADS["batch"])
    undo = pools.exhaust(fake_scene.scene, make_step(HeavyFault.EXHAUST_POOL, 2.0, PICKS["batch, delete"]))
    assert undo is not None
    undo()
    [violation] = fake_scene.scene.violations
    assert "released calls still hang" in violation


@pytest.mark.parametrize(("status", "violation_count"), [(200, 1), (503, 0)])
def test_stuck_workers_must_report_that_they_are_unhealthy(
    fake_scene: FakeScene, status: int, violation_count: int
) -> None:
    fake_scene.responses["/health"] = (status, {})
    fake_scene.add_hanging_calls(fake_scene.scene.hanging, pools.THREADS["batch"])
    undo = pools.exhaust(
        fake_scene.scene, make_step(HeavyFault.EXHAUST_POOL, pools.DETECTION_TIME_S, PICKS["batch, delete"])
    )
    assert undo is not None
    fake_scene.remove_hanging_calls(fake_scene.scene.hanging)
    undo()
    assert len(fake_scene.scene.violations) == violation_count


def test_workers_need_not_report_while_a_pipe_makes_progress(
    fake_scene: FakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_scene.add_hanging_calls(fake_scene.scene.hanging, pools.THREADS["batch"])
    undo = pools.exhaust(
        fake_scene.scene, make_step(HeavyFault.EXHAUST_POOL, pools.DETECTION_TIME_S, PICKS["batch, delete"])
    )
    assert undo is not None
    positions = count()
    monkeypatch.setattr(Pipe, "progress", lambda _: next(positions))
    fake_scene.remove_hanging_calls(fake_scene.scene.hanging)
    undo()
    assert fake_scene.scene.violations == []


def test_tasks_that_fail_to_hang_are_deleted(fake_scene: FakeScene) -> None:
    assert (
        pools.exhaust(fake_scene.scene, make_step(HeavyFault.EXHAUST_POOL, 2.0, PICKS["batch, delete"]))
        is None
    )
    assert fake_scene.requests[-1] == DELETE_REQUEST
    assert fake_scene.list_commands() == []


class FakeMessage:
    """A record of partition 1."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"%d" % self._offset


def write_file(folder: Path, first: int, end: int) -> str:
    return moving.write_file(folder, cast("Any", [FakeMessage(offset) for offset in range(first, end)]))


def test_additional_member_writes_one_file_like_the_sink(tmp_path: Path) -> None:
    assert write_file(tmp_path, 3, 6) == "wrote t-1, offsets 3 to 5, uncommitted"
    [file] = tmp_path.iterdir()
    assert file.name == "t+1+00000000000000000003+00000000000000000005.txt"
    assert file.read_bytes() == b"3\n4\n5\n"
    assert (
        write_file(tmp_path, 5, 8)
        == "t-1, offsets 5 to 7 not written: another file contains offset 5 or later ones"
    )
    assert write_file(tmp_path, 6, 6) == "no records were read"
    assert list(tmp_path.iterdir()) == [file]
