"""Tests for cancelled or failed Java tasks whose threads are still running."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.lease import MUST_NOT_WRITE
from kraal.engine.api import TaskSpec
from kraal.java_plugins.host import PluginHost
from kraal.java_plugins.run import JavaRun
from tests.unit.java_plugins.fake_host import FakeHost


@dataclass
class Scenario:
    """A host of Java tasks on a worker that may hold a lease."""

    host: FakeHost = field(default_factory=FakeHost)
    has_lease: bool = True

    def run(self) -> JavaRun:
        """Start a task and return its run."""
        run = JavaRun(
            cast("PluginHost", self.host),
            TaskSpec(
                task=TaskId(ConnectorName("c"), 0),
                task_config={},
                connector_config={},
                lease=lambda: self.has_lease,
            ),
            number=1,
            version="1",
            is_source=True,
            graceful_s=5.0,
            report=lambda _: None,
            store_metrics=lambda *_: None,
            on_end=lambda *_: None,
            offsets={},
        )
        run.open(None)
        self.host.up()
        self.host.emit(1, "started")
        return run

    def tick(self) -> None:
        """Call `tick` of all listeners."""
        for listener in list(self.host.listeners.values()):
            listener.tick()


@pytest.fixture
def scenario() -> Scenario:
    scenario = Scenario()
    scenario.host.results |= {"endTask": False, "hasEnded": False}
    return scenario


def cancel(scenario: Scenario) -> None:
    scenario.run().cancel()


def fail(scenario: Scenario) -> None:
    run = scenario.run()
    scenario.host.emit(1, "failed", "java.lang.Error: x")
    run.cancel()


@pytest.mark.parametrize("end", [cancel, fail])
def test_lingering_task_kills_its_jvm_when_the_lease_expires(
    scenario: Scenario, end: Callable[[Scenario], None]
) -> None:
    end(scenario)
    scenario.tick()
    assert scenario.host.kill_reasons == []
    scenario.has_lease = False
    scenario.tick()
    assert scenario.host.kill_reasons == [MUST_NOT_WRITE]
    scenario.host.down()
    assert scenario.host.listeners == {}


@pytest.mark.parametrize("end", [cancel, fail])
def test_task_whose_thread_has_ended_needs_no_lease(
    scenario: Scenario, end: Callable[[Scenario], None]
) -> None:
    end(scenario)
    scenario.host.results["hasEnded"] = True
    scenario.tick()
    scenario.has_lease = False
    scenario.tick()
    assert scenario.host.kill_reasons == []


def test_task_keeps_lingering_if_the_check_fails(scenario: Scenario) -> None:
    cancel(scenario)
    scenario.host.results["hasEnded"] = RuntimeError("no")
    scenario.tick()
    scenario.has_lease = False
    scenario.tick()
    assert scenario.host.kill_reasons == [MUST_NOT_WRITE]
