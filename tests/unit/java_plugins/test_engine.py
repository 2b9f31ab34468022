"""The engine opens tasks of Java connectors in the process that their connector has."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import Opened, RunEvent, Stopped, TaskSpec
from kraal.java_plugins.engine import JavaPluginEngine
from kraal.java_plugins.hosts import PluginHosts
from kraal.plugins.registry import Registry
from tests.unit.java_plugins.fake_host import FakeHosts


@pytest.mark.parametrize("jvm", ["own", "shared"])
def test_a_task_runs_in_the_jvm_of_its_connector_which_is_given_back_when_it_is_over(
    hosts: FakeHosts, registry: Registry, jvm: str
) -> None:
    engine = JavaPluginEngine(cast("Any", None), cast("PluginHosts", hosts), registry, graceful_s=5)
    config = {"name": "c", "connector.class": "OldSource", "plugins.jvm": jvm}
    host, events = hosts.take("c", config), list[RunEvent]()
    host.up()
    spec = TaskSpec(
        task=TaskId(ConnectorName("c"), 0),
        task_config={},
        connector_config=config,
        lease=lambda: True,
        assigned=lambda _: None,
        transactions=None,
    )
    run = engine.open(spec, {}, events.append)
    host.tell(1, "started")
    assert events == [Opened(version="2.0")]
    assert [each[:4] for each in host.asked] == [("startTask", "c", 0, 1)]
    assert hosts.given_back == []
    run.cancel()
    assert events[1:] == [Stopped(clean=True)]
    assert hosts.given_back == [host]
