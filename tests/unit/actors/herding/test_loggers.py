"""Levels for the whole cluster (KIP-976): one record, applied by every worker that is there to read it."""

from __future__ import annotations

import pytest

from actors.messages.herder import SetLoggerLevel
from kraal.core.log_levels import LoggerLevel, Loggers
from kraal.protocol.records import LoggerRecord, decode
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.cluster import EmbeddedCluster
from kraal.testing._simulation.worker import EmbeddedWorker

SEEDS = range(4)


def records(log: object) -> list[LoggerRecord]:
    assert isinstance(log, MemoryLog)
    decoded = [decode(record.key, record.value) for record in log.read(0, 10_000)]
    return [record for record in decoded if isinstance(record, LoggerRecord)]


def level(loggers: Loggers, name: str) -> str | None:
    level = loggers.level(name)
    return None if level is None else level.level


@pytest.mark.parametrize("seed", SEEDS)
def test_any_worker_sets_a_level_on_all(seed: int) -> None:
    cluster = EmbeddedCluster(3, seed=seed)
    cluster.settle()
    asked = next(w for w in cluster.awake if w is not cluster.leader)
    cluster.ask(asked, SetLoggerLevel(namespace="org.example", level="debug"))
    assert level(asked.loggers, "org.example") == "DEBUG", "a GET right after it shows it"
    cluster.settle()
    assert [level(w.loggers, "org.example") for w in cluster.alive] == ["DEBUG"] * 3
    assert records(cluster.config_log) == [LoggerRecord("org.example", "debug")], "as typed"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_worker_that_starts_later_passes_older_levels_over(seed: int) -> None:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    cluster.ask(cluster.awake[0], SetLoggerLevel(namespace="org.example", level="DEBUG"))
    later = cluster.add()
    cluster.settle()
    assert level(later.loggers, "org.example") is None
    cluster.ask(cluster.awake[0], SetLoggerLevel(namespace="org.example", level="TRACE"))
    cluster.settle()
    assert level(later.loggers, "org.example") == "TRACE"


def test_a_herder_that_begins_again_sets_nothing_again() -> None:
    cluster = EmbeddedCluster(1)
    cluster.settle()
    [worker] = cluster.awake
    cluster.ask(worker, SetLoggerLevel(namespace="org.example", level="DEBUG"))
    worker.loggers.set_level("org.example", "ERROR")
    worker.crash("herder")
    cluster.advance(1)
    cluster.settle()
    assert level(worker.loggers, "org.example") == "ERROR"


def test_unknown_log_level_changes_nothing() -> None:
    """A record of another program: REST refuses it."""
    cluster = EmbeddedCluster(1)
    cluster.settle()
    [worker] = cluster.awake
    cluster.ask(worker, SetLoggerLevel(namespace="org.example", level="loud"))
    assert level(worker.loggers, "org.example") is None


def test_a_standalone_worker_is_the_whole_cluster_and_writes_nothing() -> None:
    worker = EmbeddedWorker()
    worker.ask(SetLoggerLevel(namespace="root", level="fatal"))
    assert worker.loggers.level("root") == LoggerLevel("FATAL", worker.scheduler.clock.wall_ms())
    assert records(worker.config_log) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_level_that_is_set_while_a_herder_begins_again_is_not_lost(seed: int) -> None:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    crashed, other = cluster.alive
    cluster.crash(crashed, "herder")
    cluster.ask(other, SetLoggerLevel(namespace="org.example", level="DEBUG"))
    cluster.settle()
    assert level(crashed.loggers, "org.example") == "DEBUG"
