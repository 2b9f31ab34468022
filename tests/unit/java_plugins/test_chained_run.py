"""Tests for the start and end of a run of a Python task whose chain is in the plugins' JVM."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from kraal.broker.broker import free_port
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import Failed, Held, Opened, RunEvent, Stopped, TaskSpec, Waiting
from kraal.java_plugins.chains.chain import JavaChain
from kraal.java_plugins.chains.connection import ChainAddress, ChainLost
from kraal.java_plugins.chains.run import ChainedRun
from kraal.java_plugins.host import PluginHost
from kraal.java_plugins.jvm import PluginsUnavailable
from tests.unit.java_plugins.fake_host import FakeHost

SPEC = TaskSpec(task=TaskId(ConnectorName("c"), 4), task_config={}, connector_config={})


class Claim:
    """A claim that records whether it is closed."""

    is_closed = False

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True


class InnerRun:
    """A run of the inner engine that records calls."""

    def __init__(self, spec: TaskSpec, report: Callable[[RunEvent], None]) -> None:
        self.spec, self.report = spec, report
        self.requests: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.requests.append(name)


@dataclass
class Scenario:
    """A run with its host, its inner run and its events."""

    host: FakeHost = field(default_factory=FakeHost)
    inner_runs: list[InnerRun] = field(default_factory=list)
    events: list[RunEvent] = field(default_factory=list)
    ended_runs: list[ChainedRun] = field(default_factory=list)
    open_inner: Callable[..., Any] | None = None
    """A function that replaces the default inner engine, or None."""

    def __post_init__(self) -> None:
        self.host.results["openChain"] = json.dumps({"port": 7, "token": "t"})

    def open(self, spec: TaskSpec = SPEC) -> ChainedRun:
        """Open the run with number 1."""

        def open_inner(spec: TaskSpec, report: Callable[[RunEvent], None]) -> Any:
            self.inner_runs.append(InnerRun(spec, report))
            return self.inner_runs[-1]

        run = ChainedRun(
            cast("PluginHost", self.host),
            spec,
            {"transforms": "t"},
            kind="sink",
            number=1,
            graceful_s=5.0,
            open_inner=self.open_inner or open_inner,
            report=self.events.append,
            on_end=lambda run, _: self.ended_runs.append(run),
        )
        run.open()
        return run

    @property
    def methods(self) -> list[str]:
        """The methods that were called in the process."""
        return [method for method, *_ in self.host.requests]


def test_task_opens_with_its_chain_when_the_jvm_is_up() -> None:
    scenario = Scenario()
    run = scenario.open()
    run.next()
    assert scenario.events == [Waiting("it starts")]
    scenario.host.up()
    assert scenario.host.requests == [("openChain", "sink", "c", 4, 1, '{"transforms": "t"}')]
    (inner_run,) = scenario.inner_runs
    assert inner_run.spec.chain == JavaChain(ChainAddress(port=7, token="t", number=1))  # noqa: S106
    assert inner_run.requests == ["next"]
    inner_run.report(Opened(version="1"))
    run.hold()
    run.commit({})
    run.stop()
    assert inner_run.requests == ["next", "hold", "commit", "stop"]
    inner_run.report(Stopped(clean=True))
    assert scenario.events[1:] == [Opened(version="1"), Stopped(clean=True)]
    assert scenario.methods == ["openChain", "closeChain"]
    assert scenario.ended_runs == [run]
    assert not scenario.host.listeners


def test_jvm_exit_ends_the_run_like_a_lost_engine() -> None:
    scenario = Scenario()
    scenario.open()
    scenario.host.up()
    scenario.host.down()
    assert scenario.inner_runs[0].requests == ["cancel"]
    scenario.inner_runs[0].report(Stopped(clean=False))
    assert scenario.events[-1] == Failed(trace="it was killed", engine_lost=True)


def test_lost_connection_ends_the_run_like_a_lost_engine() -> None:
    scenario = Scenario()
    scenario.open()
    scenario.host.up()
    trace = f"kraal.java_plugins.chains.connection.{connect_error()}"
    scenario.inner_runs[0].report(Failed(trace=trace))
    assert scenario.events[-1] == Failed(trace=trace, engine_lost=True)


def test_failed_inner_run_fails_the_task() -> None:
    scenario = Scenario()
    scenario.open()
    scenario.host.up()
    scenario.inner_runs[0].report(Failed(trace="bad record"))
    assert scenario.events[-1] == Failed(trace="bad record")
    assert scenario.methods == ["openChain", "closeChain"]


def test_cancelled_run_stays_cancelled_when_the_jvm_exits() -> None:
    scenario = Scenario()
    run = scenario.open()
    scenario.host.up()
    run.cancel()
    scenario.host.down()
    scenario.inner_runs[0].report(Stopped(clean=False))
    assert scenario.events[-1] == Stopped(clean=False)


def test_failure_to_create_the_chain_fails_the_task() -> None:
    scenario = Scenario()
    scenario.host.results["openChain"] = RuntimeError("no such key")
    scenario.open()
    scenario.host.up()
    assert scenario.events[-1] == Failed(trace="no such key")
    assert not scenario.inner_runs
    assert "closeChain" not in scenario.methods


def test_run_waits_for_a_new_jvm_if_the_jvm_exits_while_creating_the_chain() -> None:
    scenario = Scenario()
    scenario.host.results["openChain"] = PluginsUnavailable("it ended")
    run = scenario.open()
    scenario.host.up()
    assert scenario.events[-1] == Waiting("it ended")
    scenario.host.results["openChain"] = json.dumps({"port": 7, "token": "t"})
    run.tick()
    assert len(scenario.inner_runs) == 1


def test_waiting_run_stops_immediately_and_releases_its_claim() -> None:
    scenario, claim = Scenario(), Claim()
    run = scenario.open(TaskSpec(**{**_fields(SPEC), "transactions": claim}))
    run.hold()
    run.stop()
    assert scenario.events[1:] == [Held(), Stopped(clean=True)]
    assert claim.is_closed
    scenario.host.up()
    assert not scenario.inner_runs


def _fields(spec: TaskSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ("task", "task_config", "connector_config")}


def connect_error() -> str:
    """Return the last line of the traceback of a failed connection."""
    with pytest.raises(ChainLost) as error:
        ChainAddress(port=free_port(), token="t", number=1).connect(None)  # noqa: S106 - no secret
    return "".join(traceback.format_exception_only(error.value)).removeprefix(f"{ChainLost.__module__}.")


def test_lost_connection_is_not_detected_in_record_text() -> None:
    assert ChainLost.is_in(connect_error())
    assert not ChainLost.is_in("the record says: lost the connection to the JVM of Java plugins")


def test_last_event_is_reported_after_the_chain_is_closed() -> None:
    scenario = Scenario()
    run = scenario.open()
    scenario.host.up()
    calls: list[Callable[[], object]] = []
    scenario.host.submit = lambda work, **_: calls.append(work)  # type: ignore[method-assign]
    run.stop()
    scenario.inner_runs[0].report(Stopped(clean=True))
    assert Stopped(clean=True) not in scenario.events
    (close,) = calls
    close()
    assert scenario.events[-1] == Stopped(clean=True)
    assert scenario.methods[-1] == "closeChain"
    assert scenario.ended_runs == [run]


def test_last_event_is_reported_after_a_timeout_if_plugins_do_not_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario()
    run = scenario.open()
    scenario.host.up()
    scenario.host.submit = lambda *_, **__: None  # type: ignore[method-assign]
    scenario.inner_runs[0].report(Failed(trace="bad record"))
    run.tick()
    assert Failed(trace="bad record") not in scenario.events
    deadline_s = time.monotonic() + 6
    monkeypatch.setattr(time, "monotonic", lambda: deadline_s)
    run.tick()
    assert scenario.events[-1] == Failed(trace="bad record")
    assert scenario.ended_runs == [run]


def test_run_waits_for_a_new_jvm_if_the_jvm_exits_after_creating_the_chain() -> None:
    scenario = Scenario()
    calls: list[Callable[[], object]] = []
    scenario.host.submit = lambda work, **_: calls.append(work)  # type: ignore[method-assign]
    run = scenario.open()
    scenario.host.up()
    run.on_down("it was killed")
    calls[0]()  # the JVM had already responded
    assert scenario.events[-1] == Waiting("it was killed")
    assert not scenario.inner_runs
    run.tick()
    calls[1]()
    assert len(scenario.inner_runs) == 1


def test_task_fails_if_the_inner_engine_cannot_open_it() -> None:
    scenario = Scenario()

    def fail(*_: object) -> Any:
        raise ValueError("no such task")

    scenario.open_inner = fail
    scenario.open()
    scenario.host.up()
    assert scenario.events[-1] == Failed(trace="ValueError('no such task')")
    assert scenario.methods == ["openChain", "closeChain"]
