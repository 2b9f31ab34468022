"""Scrapes ask the plugins' JVMs once each, never while an earlier question is open, and show what is known."""

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
from kraal.java_plugins.metrics import PLUGINS_MS, JavaMetrics
from kraal.metrics.java_plugins import JvmState
from tests.unit.java_plugins.fake_host import FakeHost, FakeHosts

TASK, OTHER = TaskId(ConnectorName("c"), 0), TaskId(ConnectorName("d"), 0)
TIMEOUT_S = 10.0
JVM = {"heap": {"used": 1}, "nonheap": {"used": 1}, "collectors": {}}


def answer(run: int = 1, total: object = 5.0, plugin_metrics: object = None) -> str:
    """Return what the JVM answers: one task, with one total."""
    return json.dumps({"tasks": [[run, {"total": total}]], "jvm": JVM, "own": plugin_metrics})


class Hung(FakeHost):
    """A host whose JVM answers when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    @override
    def ask(self, method: str, *arguments: object) -> Any:
        """Answer late."""
        assert self.let.wait(TIMEOUT_S)
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
    host.answers["measure"] = answer()
    host.up()
    return host


def scrape(metrics: JavaMetrics) -> None:
    (requests,) = metrics.gather()
    requests.result(TIMEOUT_S)


def is_up(metrics: JavaMetrics) -> bool:
    (jvm,) = metrics.current([]).jvms
    return jvm.up


def test_a_scrape_is_one_call(host: FakeHost, metrics: JavaMetrics) -> None:
    metrics.follow_run(TASK, 1)
    assert metrics.current([]).tasks == {TASK: None}
    scrape(metrics)
    values = metrics.current([])
    assert values.tasks == {TASK: {"total": 5.0}}
    assert values.jvms == [JvmState(up=True, starts=1)]
    assert 'kraal_jvm_memory_used_bytes{jvm="plugins",area="heap"} 1\n' in values.text
    assert host.requests == [("measure", PLUGINS_MS)]


def test_a_jvm_that_is_away_is_not_asked(host: FakeHost, metrics: JavaMetrics) -> None:
    scrape(metrics)
    host.down()
    assert metrics.gather() == []
    assert (is_up(metrics), metrics.current([]).text) == (False, "")


def test_the_text_of_an_earlier_jvm_is_not_shown(host: FakeHost, metrics: JavaMetrics) -> None:
    scrape(metrics)
    host.down()
    host.up()
    assert metrics.current([]).text == ""


def test_a_jvm_that_hangs_is_asked_once_and_its_last_numbers_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Hung()
    metrics = JavaMetrics(cast("PluginHosts", FakeHosts(up(host))))
    metrics.follow_run(TASK, 1)
    host.let.set()
    scrape(metrics)
    host.let.clear()
    (first,) = metrics.gather()
    assert metrics.gather() == [first]
    monkeypatch.setattr(module, "GATHER_S", -1.0)
    assert metrics.gather() == [], "nobody waits for long twice"
    values = metrics.current([TASK])
    assert (values.tasks, is_up(metrics)) == ({TASK: {"total": 5.0}}, False)
    assert values.text
    host.let.set()
    first.result(TIMEOUT_S)
    assert is_up(metrics)
    assert len(host.requests) == 2
    metrics.close()


@pytest.mark.parametrize("wrong", [RuntimeError("thrown"), "no JSON", "{}"])
def test_a_jvm_that_answers_wrongly_counts_as_down(
    host: FakeHost, metrics: JavaMetrics, wrong: object
) -> None:
    host.answers["measure"] = wrong
    scrape(metrics)
    assert not is_up(metrics)


def test_values_of_an_earlier_run_are_not_those_of_the_next(metrics: JavaMetrics) -> None:
    metrics.follow_run(TASK, 1)
    scrape(metrics)
    metrics.follow_run(TASK, 2)
    scrape(metrics)
    metrics.on_end(TASK, 1)
    assert metrics.current([]).tasks == {TASK: None}


def test_a_failed_task_keeps_its_last_values_until_it_is_removed(metrics: JavaMetrics) -> None:
    metrics.follow_run(TASK, 1)
    metrics.store_values(TASK, 1, cast("dict[str, float]", {"total": 6.0, "ratio": "NaN"}))
    metrics.on_end(TASK, 1)
    scrape(metrics)  # the JVM may still know older values
    values = metrics.current([TASK]).tasks[TASK]
    assert values is not None
    assert values["total"] == 6.0
    assert math.isnan(values["ratio"])
    assert metrics.current([]).tasks == {}


def test_a_task_that_has_stopped_has_no_values(metrics: JavaMetrics) -> None:
    metrics.follow_run(TASK, 1)
    scrape(metrics)
    metrics.on_end(TASK, 1)
    assert metrics.current([TASK]).tasks == {TASK: None}


def test_a_task_whose_connector_is_no_longer_java_s_is_forgotten(metrics: JavaMetrics) -> None:
    metrics.follow_run(TASK, 1)
    metrics.forget(TASK)
    assert metrics.current([TASK]).tasks == {}


def test_closed_metrics_request_nothing(metrics: JavaMetrics) -> None:
    metrics.close()
    assert metrics.gather() == []


def test_each_jvm_is_asked_and_one_that_hangs_leaves_the_numbers_of_others_alone() -> None:
    hosts, hung = FakeHosts(up(FakeHost())), Hung()
    hosts.own["c"] = up(hung)
    hung.answers["measure"] = answer(run=2)
    metrics = JavaMetrics(cast("PluginHosts", hosts))
    metrics.follow_run(OTHER, 1)
    metrics.follow_run(TASK, 2)
    first, second = metrics.gather()
    first.result(TIMEOUT_S)
    assert metrics.current([]).tasks == {OTHER: {"total": 5.0}, TASK: None}
    assert metrics.current([]).jvms == [
        JvmState(up=True, starts=1),
        JvmState(connector="c", up=False, starts=1),
    ]
    hung.let.set()
    second.result(TIMEOUT_S)
    values = metrics.current([])
    assert values.tasks == {OTHER: {"total": 5.0}, TASK: {"total": 5.0}}
    used = 'kraal_jvm_memory_used_bytes{jvm="plugins",%sarea="heap"} 1\n'
    assert used % "" in values.text
    assert used % 'connector="c",' in values.text
    assert values.text.count("# TYPE kraal_jvm_memory_used_bytes") == 1
    del hosts.own["c"]
    metrics.gather()
    assert [jvm.connector for jvm in metrics.current([]).jvms] == [""]
    metrics.close()
