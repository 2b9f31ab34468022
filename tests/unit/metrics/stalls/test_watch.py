"""Tests for log lines and topic lookups of the stall watch."""

from __future__ import annotations

import logging

import pytest

from kraal.config.connector.auto_restart import AutoRestart
from kraal.core.ids import ConnectorName, TaskId
from kraal.metrics.stalls.detection import StallDetection
from kraal.metrics.stalls.down_parts import DownPart
from kraal.metrics.stalls.watch import LOOKUP_INTERVAL_S, StallWatch
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("c")
T0 = TaskId(NAME, 0)


def test_stall_is_logged_at_its_start_and_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kraal.metrics.stalls.watch")
    worker = EmbeddedWorker()
    worker.create(NAME, {"connector.class": FAKE_SOURCE, "tasks.max": "1"})
    down_components = [DownPart("lane", worker.assembly.metrics.time.now(), "it has ended")]
    detection = StallDetection(worker.assembly.metrics, AutoRestart(), down_parts=lambda: down_components)
    watch = StallWatch(detection, worker.assembly.published, set)
    worker.fake.hang(T0)
    worker.fake.feed(T0, 5)
    watch.check()
    assert caplog.messages == []
    worker.advance(61)
    watch.check()
    watch.check()
    assert caplog.messages == [
        "Stalled: task c-0: The batch does not complete",
        "Stalled: worker's lane: it has ended",
    ]
    assert detection.components_down() == [{"part": "lane", "why": "it has ended", "down_ms": 61_000}]
    caplog.clear()
    worker.fake.hang(T0, hangs=False)
    down_components.clear()
    watch.check()
    assert caplog.messages == ["No longer stalled: task c-0", "No longer stalled: worker's lane"]


def test_watch_reports_component_outage_and_recovery() -> None:
    worker = EmbeddedWorker()
    down_components = [DownPart("spark", worker.assembly.metrics.time.now(), "it starts")]
    detection = StallDetection(worker.assembly.metrics, AutoRestart(), down_parts=lambda: down_components)
    reports: list[str] = []
    watch = StallWatch(detection, worker.assembly.published, set, lambda: reports.append("changed"))
    watch.check()
    assert reports == []
    worker.advance(61)
    watch.check()
    watch.check()
    assert reports == ["changed"]
    down_components.clear()
    watch.check()
    watch.check()
    assert reports == ["changed", "changed"]


def test_topics_are_looked_up_only_for_sinks_without_partitions(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kraal.metrics.stalls.watch")
    worker = EmbeddedWorker()
    calls: list[float] = []
    metrics = worker.assembly.metrics

    def topics() -> set[str]:
        calls.append(metrics.time.now())
        raise OSError("no broker is available")

    watch = StallWatch(StallDetection(metrics, AutoRestart()), worker.assembly.published, topics)
    worker.create(NAME, {"connector.class": FAKE_SINK, "topics": "a", "tasks.max": "1"})
    watch.check()
    assert calls == [], "the fake engine assigns a partition"
    metrics.record_partitions(T0, 0)
    watch.check()
    watch.check()
    assert len(calls) == 1
    assert caplog.messages == [
        "Failed to look up the topics of sinks without partitions: no broker is available"
    ]
    worker.advance(LOOKUP_INTERVAL_S)
    watch.check()
    assert len(calls) == 2
    metrics.record_partitions(T0, 1)
    worker.advance(LOOKUP_INTERVAL_S)
    watch.check()
    assert len(calls) == 2
