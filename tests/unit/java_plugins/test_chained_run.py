"""A run of a task in Python whose chain is in the plugins' JVM: when it opens, and how it ends."""

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
from kraal.java_plugins.jvm import PluginsAway
from tests.unit.java_plugins.fake_host import FakeHost

SPEC = TaskSpec(task=TaskId(ConnectorName("c"), 4), task_config={}, connector_config={})


class Closing:
    """A claim that notes its close."""

    closed = False

    def close(self) -> None:
        """Note it."""
        self.closed = True


class Inner:
    """A run of the other engine, which records its calls."""

    def __init__(self, spec: TaskSpec, report: Callable[[RunEvent], None]) -> None:
        self.spec, self.report = spec, report
        self.requests: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.requests.append(name)


@dataclass
class Played:
    """A run and all around it."""

    host: FakeHost = field(default_factory=FakeHost)
    inner: list[Inner] = field(default_factory=list)
    events: list[RunEvent] = field(default_factory=list)
    over: list[ChainedRun] = field(default_factory=list)
    opens: Callable[..., Any] | None = None
    """In place of the other engine."""

    def __post_init__(self) -> None:
        self.host.answers["openChain"] = json.dumps({"port": 7, "token": "t"})

    def open(self, spec: TaskSpec = SPEC) -> ChainedRun:
        """Open a run, number 1."""

        def opened(spec: TaskSpec, report: Callable[[RunEvent], None]) -> Any:
            self.inner.append(Inner(spec, report))
            return self.inner[-1]

        run = ChainedRun(
            cast("PluginHost", self.host),
            spec,
            {"transforms": "t"},
            kind="sink",
            number=1,
            graceful_s=5.0,
            open_inner=self.opens or opened,
            report=self.events.append,
            over=lambda run, _: self.over.append(run),
        )
        run.open()
        return run

    @property
    def methods(self) -> list[str]:
        """What the process was asked."""
        return [method for method, *_ in self.host.requests]


def test_the_task_opens_with_its_chain_when_the_jvm_is_up() -> None:
    played = Played()
    run = played.open()
    run.next()
    assert played.events == [Waiting("it starts")]
    played.host.up()
    assert played.host.requests == [("openChain", "sink", "c", 4, 1, '{"transforms": "t"}')]
    (inner,) = played.inner
    assert inner.spec.chain == JavaChain(ChainAddress(port=7, token="t", number=1))  # noqa: S106
    assert inner.requests == ["next"]
    inner.report(Opened(version="1"))
    run.hold()
    run.commit({})
    run.stop()
    assert inner.requests == ["next", "hold", "commit", "stop"]
    inner.report(Stopped(clean=True))
    assert played.events[1:] == [Opened(version="1"), Stopped(clean=True)]
    assert played.methods == ["openChain", "closeChain"]
    assert played.over == [run]
    assert not played.host.listeners


def test_the_end_of_the_jvm_ends_the_run_like_the_end_of_spark() -> None:
    played = Played()
    played.open()
    played.host.up()
    played.host.down()
    assert played.inner[0].requests == ["cancel"]
    played.inner[0].report(Stopped(clean=False))
    assert played.events[-1] == Failed(trace="it was killed", engine_lost=True)


def test_a_batch_that_lost_its_connection_ends_the_run_in_the_same_way() -> None:
    played = Played()
    played.open()
    played.host.up()
    trace = f"kraal.java_plugins.chains.connection.{lost()}"
    played.inner[0].report(Failed(trace=trace))
    assert played.events[-1] == Failed(trace=trace, engine_lost=True)


def test_another_failure_is_the_task_s_own() -> None:
    played = Played()
    played.open()
    played.host.up()
    played.inner[0].report(Failed(trace="bad record"))
    assert played.events[-1] == Failed(trace="bad record")
    assert played.methods == ["openChain", "closeChain"]


def test_a_cancelled_run_stays_cancelled_when_the_jvm_ends() -> None:
    played = Played()
    run = played.open()
    played.host.up()
    run.cancel()
    played.host.down()
    played.inner[0].report(Stopped(clean=False))
    assert played.events[-1] == Stopped(clean=False)


def test_a_chain_that_cannot_be_made_fails_the_task() -> None:
    played = Played()
    played.host.answers["openChain"] = RuntimeError("no such key")
    played.open()
    played.host.up()
    assert played.events[-1] == Failed(trace="no such key")
    assert not played.inner
    assert "closeChain" not in played.methods


def test_a_jvm_that_ends_while_the_chain_is_made_is_waited_for() -> None:
    played = Played()
    played.host.answers["openChain"] = PluginsAway("it ended")
    run = played.open()
    played.host.up()
    assert played.events[-1] == Waiting("it ended")
    played.host.answers["openChain"] = json.dumps({"port": 7, "token": "t"})
    run.tick()
    assert len(played.inner) == 1


def test_a_run_that_waits_pauses_and_stops_at_once_and_gives_up_its_claim() -> None:
    played, claim = Played(), Closing()
    run = played.open(TaskSpec(**{**_fields(SPEC), "transactions": claim}))
    run.hold()
    run.stop()
    assert played.events[1:] == [Held(), Stopped(clean=True)]
    assert claim.closed
    played.host.up()
    assert not played.inner


def _fields(spec: TaskSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in ("task", "task_config", "connector_config")}


def lost() -> str:
    """Return how a traceback ends whose cause is a connection that cannot be made."""
    with pytest.raises(ChainLost) as caught:
        ChainAddress(port=free_port(), token="t", number=1).connect(None)  # noqa: S106 - no secret
    return "".join(traceback.format_exception_only(caught.value)).removeprefix(f"{ChainLost.__module__}.")


def test_only_the_error_itself_tells_of_a_lost_connection() -> None:
    assert ChainLost.is_in(lost())
    assert not ChainLost.is_in("the record says: lost the connection to the JVM of Java plugins")


def test_the_last_event_waits_for_the_close_of_the_plugins() -> None:
    played = Played()
    run = played.open()
    played.host.up()
    calls: list[Callable[[], object]] = []
    played.host.submit = lambda work, **_: calls.append(work)  # type: ignore[method-assign]
    run.stop()
    played.inner[0].report(Stopped(clean=True))
    assert Stopped(clean=True) not in played.events
    (close,) = calls
    close()
    assert played.events[-1] == Stopped(clean=True)
    assert played.methods[-1] == "closeChain"
    assert played.over == [run]


def test_plugins_that_do_not_close_hold_up_the_end_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played()
    run = played.open()
    played.host.up()
    played.host.submit = lambda *_, **__: None  # type: ignore[method-assign]
    played.inner[0].report(Failed(trace="bad record"))
    run.tick()
    assert Failed(trace="bad record") not in played.events
    late = time.monotonic() + 6
    monkeypatch.setattr(time, "monotonic", lambda: late)
    run.tick()
    assert played.events[-1] == Failed(trace="bad record")
    assert played.over == [run]


def test_a_jvm_that_ends_after_it_has_made_the_chain_is_waited_for() -> None:
    played = Played()
    calls: list[Callable[[], object]] = []
    played.host.submit = lambda work, **_: calls.append(work)  # type: ignore[method-assign]
    run = played.open()
    played.host.up()
    run.on_down("it was killed")
    calls[0]()  # its answer had come before
    assert played.events[-1] == Waiting("it was killed")
    assert not played.inner
    run.tick()
    calls[1]()
    assert len(played.inner) == 1


def test_a_task_that_the_other_engine_cannot_open_fails() -> None:
    played = Played()

    def refused(*_: object) -> Any:
        raise ValueError("no such task")

    played.opens = refused
    played.open()
    played.host.up()
    assert played.events[-1] == Failed(trace="ValueError('no such task')")
    assert played.methods == ["openChain", "closeChain"]
