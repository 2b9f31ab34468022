"""Faults of `kinds` on a fake cluster: commands, repairs, skipped steps and records."""

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
from scripts.chaos_run.kinds.orders import Orders
from scripts.chaos_run.kinds.scene import Scene
from scripts.chaos_run.members import Member, Members
from scripts.chaos_run.pipes import HANGING, Pipe, Target
from scripts.chaos_run.schedule import Heavy, HeavyStep
from scripts.chaos_run.timeline import Timeline

DEADLINE_S = 1_000.0
DELETED = ("DELETE", f"/connectors/{HANGING}")


class FakeMember:
    """A worker in this process that accepts all requests."""

    process: Any
    worker_id = "127.0.0.1:1"
    url: str | None = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.process = self
        self.pid = os.getpid()
        self.alive = True
        self.signals: list[signal.Signals] = []
        self.requests: list[dict[str, Any]] = []
        self.knows = True

    def send_signal(self, number: signal.Signals) -> None:
        self.signals.append(number)

    def jvm(self) -> FakeMember:
        return self

    def control(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        return {} if self.knows else {"error": "do"}


class FakeMembers:
    """One fake member."""

    def __init__(self) -> None:
        self.all = [FakeMember()]
        self.broker = self
        self.bootstrap = "127.0.0.1:1"
        self.pid = 1

    def up(self) -> list[FakeMember]:
        return self.all


class World:
    """A scene that records requests and signals."""

    def __init__(self, directory: Path) -> None:
        self.members = FakeMembers()
        self.requests: list[tuple[str, str]] = []
        self.answers: dict[str, tuple[int, Any]] = {}
        self.signals: list[signal.Signals] = []
        self.slow, self.once = (
            Pipe(
                name, directory / f"{name}.in", directory / name, target, Orders(directory / f"{name}.orders")
            )
            for name, target in (("slow", Target.SLOW_FILE), ("once", Target.FILES))
        )
        self.once.sink_file.mkdir()
        self.scene = Scene(
            members=cast("Members", self.members),
            slow=self.slow,
            once=self.once,
            hanging=Orders(directory / HANGING),
            ask=self.ask,
            pipes=[self.slow, self.once],
            timeline=Timeline(),
            stopped=threading.Event(),
        )

    def ask(self, member: Member, asked: Call) -> tuple[int, Any] | None:
        del member
        self.requests.append((asked.method, asked.path))
        return self.answers.get(asked.path, (200, {"tasks": [{"worker_id": self.members.all[0].worker_id}]}))

    def hangs(self, orders: Orders, calls: int = 1) -> None:
        for number in range(calls):
            orders.prefix.with_name(f"{orders.prefix.name}.hanging.{os.getpid()}.{number}").touch()

    def ends(self, orders: Orders) -> None:
        for path in orders.prefix.parent.glob(f"{orders.prefix.name}.hanging.*"):
            path.unlink()

    def ordered(self) -> list[str]:
        all_orders = (self.slow.orders, self.once.orders, self.scene.hanging)
        return sorted(
            path.name
            for orders in all_orders
            for path in orders.prefix.parent.glob(f"{orders.prefix.name}.*")
            if ".hanging." not in path.name and not path.name.endswith(".in")
        )


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    result = World(tmp_path)
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


def step(fault: Heavy, hold_s: float = 0.0, pick: float = 0.0) -> HeavyStep:
    return HeavyStep(0.0, fault, 0, hold_s, pick)


def set_committed(monkeypatch: pytest.MonkeyPatch, *offsets: Mapping[int, int]) -> None:
    remaining = iter(offsets)
    monkeypatch.setattr(targets, "get_committed", lambda *_: next(remaining))


@pytest.mark.parametrize(
    ("offsets", "lines", "broken"),
    [
        (({0: 5}, {0: 5}), "t-0 5 9\nt-0 5 11\n", ["t-0 5 2 times"]),
        (({0: 5}, {0: 9}), "t-0 5 9\nt-0 5 11\n", []),
        (({0: 5}, {0: 5}), "t-0 5 9\n", []),
    ],
)
def test_slow_sink_that_repeats_a_batch_is_reported(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    offsets: tuple[Mapping[int, int], ...],
    lines: str,
    broken: list[str],
) -> None:
    set_committed(monkeypatch, *offsets)
    undo = targets.slow_down(world.scene, step(Heavy.SLOW_TARGET))
    assert undo is not None
    assert world.ordered() == ["slow.orders.sleep"]
    world.slow.orders.prefix.with_name("slow.orders.written").write_text(lines)
    undo()
    assert world.ordered() == ["slow.orders.written"]
    assert [each.rpartition(": ")[2] for each in world.scene.broken] == broken


def test_target_hangs_until_it_is_released(world: World) -> None:
    world.hangs(world.slow.orders)
    undo = targets.hang(world.scene, step(Heavy.HANG_TARGET))
    assert undo is not None
    assert world.ordered() == ["slow.orders.hang"]
    undo()
    assert world.ordered() == []


@pytest.mark.parametrize("fault", [Heavy.HANG_TARGET, Heavy.OVERLAP_RESTART, Heavy.OVERLAP_FROZEN])
def test_fault_without_a_batch_withdraws_its_commands(world: World, fault: Heavy) -> None:
    faults = Faults(cast("Members", world.members), Timeline(), world.scene)
    faults.run_heavy_steps([step(fault)], DEADLINE_S)
    assert world.ordered() == []
    assert faults.counts == {}
    assert world.signals == []


def test_release_withdraws_all_commands(world: World) -> None:
    world.slow.orders.sleep(1.0)
    world.once.orders.hang_one()
    world.scene.hanging.hang()
    Faults(cast("Members", world.members), Timeline(), world.scene).revive()
    assert world.ordered() == []


def test_older_run_resumes_when_its_successor_writes(world: World) -> None:
    world.hangs(world.once.orders)
    undo = overlap.restart(world.scene, step(Heavy.OVERLAP_RESTART))
    assert undo is not None
    assert world.requests == [("POST", "/connectors/once-sink/restart?includeTasks=true")]
    assert world.ordered() == ["once.orders.hang-one"]
    undo()
    assert world.ordered() == []


def test_worker_is_frozen_while_its_task_hangs(world: World) -> None:
    world.hangs(world.once.orders)
    undo = overlap.freeze(world.scene, step(Heavy.OVERLAP_FROZEN))
    assert undo is not None
    assert world.signals == [signal.SIGSTOP]
    undo()
    assert world.signals[0] == signal.SIGSTOP
    assert set(world.signals[1:]) == {signal.SIGCONT}
    assert world.ordered() == []


def test_older_run_resumes_while_its_successor_has_a_staged_batch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hangs(world.once.orders)
    undo = overlap.freeze(world.scene, step(Heavy.OVERLAP_FROZEN))
    assert undo is not None
    world.members.all[0].worker_id = "127.0.0.1:2"
    world.members.all.append(FakeMember())
    monkeypatch.setattr(overlap, "FREEZE_S", 0.0)
    staged = world.once.sink_file / STAGING / "owner" / "batch"
    staged.mkdir(parents=True)
    (staged / "_SUCCESS").touch()
    world.answers["/connectors/once-sink/status"] = (200, {"tasks": [{"worker_id": "127.0.0.1:1"}]})
    undo()
    stop, cont = signal.SIGSTOP, signal.SIGCONT
    assert world.signals == [stop, stop, cont, cont, cont], "older, successor, older, successor, older"


def test_suspend_moves_the_clock_and_stops_both_processes(world: World) -> None:
    faults = Faults(cast("Members", world.members), Timeline(), world.scene)
    faults.run_heavy_steps([step(Heavy.SUSPEND, 0.5)], DEADLINE_S)
    assert world.members.all[0].requests == [{"do": "suspend", "seconds": 0.5}]
    assert world.signals == [signal.SIGSTOP, signal.SIGCONT], "sent to Python"
    assert world.members.all[0].signals == world.signals, "sent to the JVM"
    assert faults.counts == {Heavy.SUSPEND: 1}
    assert faults.failed == []


def test_worker_without_suspend_command_is_not_stopped(world: World) -> None:
    world.members.all[0].knows = False
    faults = Faults(cast("Members", world.members), Timeline(), world.scene)
    faults.run_heavy_steps([step(Heavy.SUSPEND)], DEADLINE_S)
    assert faults.counts == {}


WAYS = {way: (number + 0.5) / len(pools.WAYS) for number, way in enumerate(sorted(pools.WAYS))}


@pytest.mark.parametrize("where", ["batch", "start"])
@pytest.mark.parametrize("then", ["delete", "restart"])
def test_hanging_tasks_are_deleted_or_restarted_and_released(world: World, where: str, then: str) -> None:
    world.hangs(world.scene.hanging, pools.THREADS[where])
    undo = pools.exhaust(world.scene, step(Heavy.EXHAUST_POOL, 2.0, WAYS[f"{where}, {then}"]))
    assert undo is not None
    restart = ("POST", f"/connectors/{HANGING}/restart?includeTasks=true")
    assert world.requests == [
        ("PUT", f"/connectors/{HANGING}/config"),
        *([restart] if then == "restart" else []),
        DELETED,
    ]
    assert world.ordered() == [f"{HANGING}.hang"]
    world.ends(world.scene.hanging)
    undo()
    assert world.ordered() == []
    assert world.requests[-1] == DELETED
    assert world.scene.broken == []


def test_calls_that_hang_after_release_are_reported(world: World) -> None:
    world.hangs(world.scene.hanging, pools.THREADS["batch"])
    undo = pools.exhaust(world.scene, step(Heavy.EXHAUST_POOL, 2.0, WAYS["batch, delete"]))
    assert undo is not None
    undo()
    [broken] = world.scene.broken
    assert "released calls still hang" in broken


@pytest.mark.parametrize(("status", "broken"), [(200, 1), (503, 0)])
def test_stuck_workers_must_report_it(world: World, status: int, broken: int) -> None:
    world.answers["/health"] = (status, {})
    world.hangs(world.scene.hanging, pools.THREADS["batch"])
    undo = pools.exhaust(world.scene, step(Heavy.EXHAUST_POOL, pools.DETECTION_TIME_S, WAYS["batch, delete"]))
    assert undo is not None
    world.ends(world.scene.hanging)
    undo()
    assert len(world.scene.broken) == broken


def test_workers_need_not_report_while_a_pipe_makes_progress(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.hangs(world.scene.hanging, pools.THREADS["batch"])
    undo = pools.exhaust(world.scene, step(Heavy.EXHAUST_POOL, pools.DETECTION_TIME_S, WAYS["batch, delete"]))
    assert undo is not None
    moves = count()
    monkeypatch.setattr(Pipe, "progress", lambda _: next(moves))
    world.ends(world.scene.hanging)
    undo()
    assert world.scene.broken == []


def test_tasks_that_fail_to_hang_are_deleted(world: World) -> None:
    assert pools.exhaust(world.scene, step(Heavy.EXHAUST_POOL, 2.0, WAYS["batch, delete"])) is None
    assert world.requests[-1] == DELETED
    assert world.ordered() == []


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


def put(folder: Path, first: int, end: int) -> str:
    return moving.put(folder, cast("Any", [FakeMessage(offset) for offset in range(first, end)]))


def test_intruder_writes_files_like_the_sink(tmp_path: Path) -> None:
    assert put(tmp_path, 3, 6) == "wrote t-1, offsets 3 to 5, which is not committed"
    [file] = tmp_path.iterdir()
    assert file.name == "t+1+00000000000000000003+00000000000000000005.txt"
    assert file.read_bytes() == b"3\n4\n5\n"
    assert put(tmp_path, 5, 8) == "other files have some of t-1, offsets 5 to 7"
    assert put(tmp_path, 6, 6) == "it had no records"
    assert list(tmp_path.iterdir()) == [file]
