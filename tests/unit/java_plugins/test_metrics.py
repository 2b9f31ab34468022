"""Tests that a scrape sends at most one pending request to each JVM and returns the latest metrics."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from typing_extensions import override

from kraal.core.ids import ConnectorName, TaskId
from kraal.java_plugins import metrics as module
from kraal.java_plugins.hosts import PluginHosts
from kraal.java_plugins.metrics import PLUGIN_TIMEOUT_MS, JavaMetrics
from kraal.metrics.java_plugins import JvmState
from tests.unit.java_plugins.fake_host import FakeHost, FakeHosts

TASK, OTHER_TASK = TaskId(ConnectorName("c"), 0), TaskId(ConnectorName("d"), 0)
TIMEOUT_S = 10.0
JVM_METRICS = {"heap": {"used": 1}, "nonheap": {"used": 1}, "collectors": {}}


def response(run: int = 1, total: object = 5.0, plugin_metrics: object = None) -> str:
    """Return a response of the JVM with one task and one metric."""
    return json.dumps({"tasks": [[run, {"total": total}]], "jvm": JVM_METRICS, "own": plugin_metrics})


class HungHost(FakeHost):
    """A host whose JVM responds only once a test permits it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_respond = threading.Event()

    @override
    def ask(self, method: str, *arguments: object) -> Any:
        """Respond when the test permits it."""
        assert self.may_respond.wait(TIMEOUT_S)
        return super().ask(method, *arguments)


@pytest.fixture
def host() -> FakeHost:
    """Return a host that is up."""
    return up(FakeHost())


@pytest.fixture
def metrics(host: FakeHost) -> Iterator[JavaMetrics]:
    """Return the metrics of the host."""
    metrics = JavaMetrics(cast("PluginHosts", FakeHosts(host)))
    yield metrics
    metrics.close()


def up(host: FakeHost) -> FakeHost:
    host.results["measure"] = response()
    host.up()
    return host


def scrape(metrics: JavaMetrics) -> None:
    (requests,) = metrics.gather()
    requests.result(TIMEOUT_S)


def is_up(metrics: JavaMetrics) -> bool:
    (jvm,) = metrics.current([]).jvms
    return jvm.is_up


def test_scrape_makes_one_call(host: FakeHost, metrics: JavaMetrics) -> None:
    metrics.add_run(TASK, 1)
    assert metrics.current([]).tasks == {TASK: None}
    scrape(metrics)
    values = metrics.current([])
    assert values.tasks == {TASK: {"total": 5.0}}
    assert values.jvms == [JvmState(is_up=True, starts=1)]
    assert 'kraal_jvm_memory_used_bytes{jvm="plugins",area="heap"} 1\n' in values.text
    assert host.requests == [("measure", PLUGIN_TIMEOUT_MS)]


def test_scrape_skips_a_jvm_that_is_down(host: FakeHost, metrics: JavaMetrics) -> None:
    scrape(metrics)
    host.down()
    assert metrics.gather() == []
    assert (is_up(metrics), metrics.current([]).text) == (False, "")


def test_metrics_of_a_previous_jvm_are_dropped(host: FakeHost, metrics: JavaMetrics) -> None:
    scrape(metrics)
    host.down()
    host.up()
    assert metrics.current([]).text == ""


def test_hung_jvm_gets_one_request_and_keeps_its_last_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    host = HungHost()
    metrics = JavaMetrics(cast("PluginHosts", FakeHosts(up(host))))
    metrics.add_run(TASK, 1)
    host.may_respond.set()
    scrape(metrics)
    host.may_respond.clear()
    (first,) = metrics.gather()
    assert metrics.gather() == [first]
    monkeypatch.setattr(module, "GATHER_S", -1.0)
    assert metrics.gather() == [], "only the first scrape waits for a hung JVM"
    values = metrics.current([TASK])
    assert (values.tasks, is_up(metrics)) == ({TASK: {"total": 5.0}}, False)
    assert values.text
    host.may_respond.set()
    first.result(TIMEOUT_S)
    assert is_up(metrics)
    assert len(host.requests) == 2
    metrics.close()


@pytest.mark.parametrize("invalid_response", [RuntimeError("thrown"), "no JSON", "{}"])
def test_jvm_with_an_invalid_response_is_down(
    host: FakeHost, metrics: JavaMetrics, invalid_response: object
) -> None:
    host.results["measure"] = invalid_response
    scrape(metrics)
    assert not is_up(metrics)


def test_values_of_a_previous_run_are_dropped(metrics: JavaMetrics) -> None:
    metrics.add_run(TASK, 1)
    scrape(metrics)
    metrics.add_run(TASK, 2)
    scrape(metrics)
    metrics.on_end(TASK, 1)
    assert metrics.current([]).tasks == {TASK: None}


def test_failed_task_keeps_its_last_values_until_it_is_removed(metrics: JavaMetrics) -> None:
    metrics.add_run(TASK, 1)
    metrics.store_values(TASK, 1, cast("dict[str, float]", {"total": 6.0, "ratio": "NaN"}))
    metrics.on_end(TASK, 1)
    scrape(metrics)  # the JVM may still return older values
    values = metrics.current([TASK]).tasks[TASK]
    assert values is not None
    assert values["total"] == 6.0
    assert math.isnan(values["ratio"])
    assert metrics.current([]).tasks == {}


def test_stopped_task_has_no_values(metrics: JavaMetrics) -> None:
    metrics.add_run(TASK, 1)
    scrape(metrics)
    metrics.on_end(TASK, 1)
    assert metrics.current([TASK]).tasks == {TASK: None}


def test_removed_task_has_no_metrics(metrics: JavaMetrics) -> None:
    metrics.add_run(TASK, 1)
    metrics.remove_task(TASK)
    assert metrics.current([TASK]).tasks == {}


def test_closed_metrics_send_no_requests(metrics: JavaMetrics) -> None:
    metrics.close()
    assert metrics.gather() == []


def test_hung_jvm_does_not_block_metrics_of_other_jvms() -> None:
    hosts, hung_host = FakeHosts(up(FakeHost())), HungHost()
    hosts.own["c"] = up(hung_host)
    hung_host.results["measure"] = response(run=2)
    metrics = JavaMetrics(cast("PluginHosts", hosts))
    metrics.add_run(OTHER_TASK, 1)
    metrics.add_run(TASK, 2)
    first, second = metrics.gather()
    first.result(TIMEOUT_S)
    assert metrics.current([]).tasks == {OTHER_TASK: {"total": 5.0}, TASK: None}
    assert metrics.current([]).jvms == [
        JvmState(is_up=True, starts=1),
        JvmState(connector="c", is_up=False, starts=1),
    ]
    hung_host.may_respond.set()
    second.result(TIMEOUT_S)
    values = metrics.current([])
    assert values.tasks == {OTHER_TASK: {"total": 5.0}, TASK: {"total": 5.0}}
    memory_sample = 'kraal_jvm_memory_used_bytes{jvm="plugins",%sarea="heap"} 1\n'
    assert memory_sample % "" in values.text
    assert memory_sample % 'connector="c",' in values.text
    assert values.text.count("# TYPE kraal_jvm_memory_used_bytes") == 1
    del hosts.own["c"]
    metrics.gather()
    assert [jvm.connector for jvm in metrics.current([]).jvms] == [""]
    metrics.close()
