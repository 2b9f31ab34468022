"""Tests for faults that send no signals to workers, and for the standstill check, with a fake cluster."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any, cast

import pytest
from kafka.errors import CorruptRecordError, KafkaTimeoutError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from scripts.chaos_run.clients import Call
from scripts.chaos_run.kinds import causes, hostile, small_topic, starve
from scripts.chaos_run.kinds.causes import list_reasons
from scripts.chaos_run.kinds.orders import Commands
from scripts.chaos_run.kinds.scene import Scene
from scripts.chaos_run.kinds.standstill import CHECK_INTERVAL_S, LIMIT_S, StandstillCheck
from scripts.chaos_run.members import Member
from scripts.chaos_run.pipes import Pipe
from scripts.chaos_run.schedule import HeavyFault, HeavyStep
from scripts.chaos_run.timeline import Timeline


class FakeCluster:
    """A fake cluster with one worker, which accepts all requests."""

    bootstrap = "127.0.0.1:1"

    def __init__(self) -> None:
        self.broker = self
        self.all = [self]

    def up(self) -> list[FakeCluster]:
        return self.all


class FakeScene:
    """A fake scene that records requests."""

    def __init__(self, directory: Path) -> None:
        self.pipe = Pipe("p", directory / "p.in", directory / "p.out")
        self.requests: list[tuple[str, str]] = []
        self.connectors: dict[str, Any] = {}
        self.scene = Scene(
            members=cast("Any", FakeCluster()),
            slow=self.pipe,
            once=self.pipe,
            hanging=Commands(directory / "hanging"),
            ask=self.ask,
            pipes=[self.pipe],
            timeline=Timeline(),
            stopped=threading.Event(),
        )

    def ask(self, member: Member, request: Call) -> tuple[int, Any]:
        del member
        self.requests.append((request.method, request.path))
        return 200, self.connectors

    @property
    def violations(self) -> list[str]:
        return [text.partition(" s ")[2] for text in self.scene.violations]


@pytest.fixture
def fake_scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeScene:
    monkeypatch.setattr(causes, "PROGRESS_TIMEOUT_S", 0.0)
    monkeypatch.setattr(causes, "MAX_WAIT_S", 0.3)
    monkeypatch.setattr(causes, "CHECK_INTERVAL_S", 0.0)
    monkeypatch.setattr(hostile, "produce", lambda *_: None)
    return FakeScene(tmp_path)


def make_step(fault: HeavyFault) -> HeavyStep:
    return HeavyStep(0.0, fault, 0, 0.0, 0.5)


RUNNING = {"state": "RUNNING", "worker_id": "w"}
RUNNING_CONNECTOR: dict[str, Any] = {
    "status": {"connector": RUNNING, "tasks": [RUNNING]},
    "progress": {"tasks": [{"id": 0, "stalled": False}]},
}
STALLED_CONNECTOR = {
    **RUNNING_CONNECTOR,
    "progress": {"tasks": [{"id": 0, "stalled": True, "stall_cause": "The batch does not complete"}]},
}
FAILED_CONNECTOR = {
    **RUNNING_CONNECTOR,
    "status": {"connector": RUNNING, "tasks": [{**RUNNING, "state": "FAILED", "trace": "E: x\n at"}]},
}
PAUSED_CONNECTOR = {
    **RUNNING_CONNECTOR,
    "status": {"connector": {**RUNNING, "state": "PAUSED"}, "tasks": [RUNNING]},
}


DELETE_REQUESTS = [("DELETE", f"/connectors/{name}") for name in hostile.SINKS]


def test_header_names_are_written_as_raw_bytes() -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 100_000)
    record = hostile.RECORDS[0]
    builder.append(0, 0, None, record.value, list(record.headers))
    batch = bytes(builder.build())
    assert b"\xff\xfe" in batch
    assert b"caf\xe9" in batch
    with pytest.raises(CorruptRecordError):
        list(DefaultRecordBatch(batch))


@pytest.mark.parametrize(
    ("is_written", "sink"),
    [(True, "running"), (False, "running"), (False, "stalled"), (False, "failed"), (False, "unassigned")],
)
def test_sink_that_stops_at_hostile_records_is_reported(
    fake_scene: FakeScene, sink: str, *, is_written: bool
) -> None:
    sinks = {
        "running": RUNNING_CONNECTOR,
        "stalled": STALLED_CONNECTOR,
        "failed": FAILED_CONNECTOR,
        "unassigned": {},
    }
    fake_scene.connectors = {"hostile-string": RUNNING_CONNECTOR, "hostile-json": sinks[sink]}
    undo = hostile.send(fake_scene.scene, make_step(HeavyFault.HOSTILE_RECORDS))
    assert undo is not None
    assert fake_scene.requests == [("PUT", f"/connectors/{name}/config") for name in hostile.SINKS]
    fake_scene.requests.clear()
    marker = f"after hostile records, at {fake_scene.scene.timeline.now_s():.1f} s, 0.5"
    texts = {"hostile-string": marker, "hostile-json": marker if is_written else "other"}
    for name, text in texts.items():
        fake_scene.pipe.sink_file.with_name(f"{name}.out").write_text(text)
    undo()
    message = "the sink hostile-json has not written the record that follows the hostile records"
    assert fake_scene.violations == ([] if is_written else [message])
    assert fake_scene.requests[-2:] == DELETE_REQUESTS


def test_hostile_sinks_are_deleted_if_the_broker_is_unavailable(
    fake_scene: FakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_timeout(*_: object) -> None:
        raise KafkaTimeoutError

    monkeypatch.setattr(hostile, "produce", raise_timeout)
    assert hostile.send(fake_scene.scene, make_step(HeavyFault.HOSTILE_RECORDS)) is None
    assert fake_scene.requests[2:] == DELETE_REQUESTS


@pytest.mark.parametrize(
    ("has_progress", "sink", "is_violation"),
    [
        (True, "running", False),
        (False, "running", True),
        (False, "paused", False),
        (False, "unassigned", False),
    ],
)
def test_running_pipe_that_stops_with_a_small_topic_is_reported(
    fake_scene: FakeScene,
    monkeypatch: pytest.MonkeyPatch,
    sink: str,
    *,
    has_progress: bool,
    is_violation: bool,
) -> None:
    limits: list[int | None] = []

    def set_limit(bootstrap: str, pipe: Pipe, limit: int | None) -> bool:
        del bootstrap, pipe
        limits.append(limit)
        return True

    sinks = {"running": RUNNING_CONNECTOR, "paused": PAUSED_CONNECTOR, "unassigned": {}}
    fake_scene.connectors = {"p-source": RUNNING_CONNECTOR, "p-sink": sinks[sink]}
    monkeypatch.setattr(small_topic, "_set_limit", set_limit)
    undo = small_topic.shrink(fake_scene.scene, make_step(HeavyFault.SMALL_TOPIC))
    assert undo is not None
    assert limits == [small_topic.LIMIT_BYTES]
    if has_progress:
        fake_scene.pipe.sink_file.write_text("x")
    undo()
    assert limits == [small_topic.LIMIT_BYTES, None]
    assert fake_scene.violations == (
        ["p: no line was delivered while its topic had max.message.bytes=2000"] if is_violation else []
    )


def test_small_topic_is_skipped_if_the_broker_is_unavailable(
    fake_scene: FakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_topic, "_set_limit", lambda *_: False)
    assert small_topic.shrink(fake_scene.scene, make_step(HeavyFault.SMALL_TOPIC)) is None


def test_starving_processes_are_killed(fake_scene: FakeScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starve, "PROCESSES_PER_CORE", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(starve, "_BUSY_LOOP", "import threading; threading.Event().wait({seconds})")
    busy_processes: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(command: list[str]) -> subprocess.Popen[bytes]:
        busy_processes.append(popen(command))
        return busy_processes[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    undo = starve.starve(fake_scene.scene, make_step(HeavyFault.STARVE))
    assert undo is not None
    assert [process.poll() for process in busy_processes] == [None]
    undo()
    assert all(process.returncode is not None for process in busy_processes)


@pytest.mark.parametrize(
    ("connector", "reasons"),
    [
        (RUNNING_CONNECTOR, []),
        ({}, []),
        (STALLED_CONNECTOR, ["The batch does not complete"]),
        (FAILED_CONNECTOR, ["FAILED, E: x"]),
        ({"progress": {"stall_cause": "It has no tasks"}}, ["It has no tasks"]),
        ({"status": {"connector": {**RUNNING, "state": "PAUSED"}}}, ["PAUSED"]),
        ({"status": {"connector": {**RUNNING, "state": "UNASSIGNED"}}}, []),
        ({**RUNNING_CONNECTOR, "progress": {"tasks": [{"stalled": True}]}}, []),
    ],
)
def test_reasons_of_a_standstill_are_states_and_causes(connector: dict[str, Any], reasons: list[str]) -> None:
    assert list_reasons(connector) == reasons


def test_standstill_without_a_cause_is_reported_once(
    fake_scene: FakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, stall_s = [1000.0], {"p": 2 * CHECK_INTERVAL_S}
    monkeypatch.setattr("scripts.chaos_run.kinds.standstill.time.monotonic", lambda: now_s[0])
    standstill = StandstillCheck(fake_scene.scene, lambda pipe: stall_s[pipe.name])

    def check_after(seconds: float, sink: dict[str, Any]) -> list[str]:
        now_s[0] += seconds
        stall_s["p"] += seconds
        fake_scene.connectors = {"p-source": RUNNING_CONNECTOR, "p-sink": sink}
        standstill.check()
        return fake_scene.violations

    assert check_after(0, RUNNING_CONNECTOR) == []
    assert fake_scene.requests == [], "REST is queried after two intervals"
    assert check_after(LIMIT_S, STALLED_CONNECTOR) == []
    assert check_after(LIMIT_S - 1, RUNNING_CONNECTOR) == [], "the pipe may recover after its cause has ended"
    message = "p made no progress for 120 s, and no part of it is stalled or failed"
    assert check_after(2, RUNNING_CONNECTOR) == [message]
    assert check_after(5, RUNNING_CONNECTOR) == [message], "reported once"
    stall_s["p"] = 0.0
    check_after(0, RUNNING_CONNECTOR)
    assert check_after(LIMIT_S + 1, RUNNING_CONNECTOR) == [message, message], "a new standstill"
