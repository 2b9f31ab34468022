"""Tests for cluster-wide log levels (KIP-976): one record sets a level on every running worker."""

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
    decoded_records = [decode(record.key, record.value) for record in log.read(0, 10_000)]
    return [record for record in decoded_records if isinstance(record, LoggerRecord)]


def level(loggers: Loggers, name: str) -> str | None:
    level = loggers.level(name)
    return None if level is None else level.level


@pytest.mark.parametrize("seed", SEEDS)
def test_any_worker_sets_a_level_on_all_workers(seed: int) -> None:
    cluster = EmbeddedCluster(3, seed=seed)
    cluster.settle()
    follower = next(w for w in cluster.awake if w is not cluster.leader)
    cluster.ask(follower, SetLoggerLevel(namespace="org.example", level="debug"))
    assert level(follower.loggers, "org.example") == "DEBUG", "an immediate GET returns the new level"
    cluster.settle()
    assert [level(w.loggers, "org.example") for w in cluster.alive] == ["DEBUG"] * 3
    assert records(cluster.config_log) == [LoggerRecord("org.example", "debug")], (
        "the record contains the level in the case of the request"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_starting_worker_ignores_earlier_levels(seed: int) -> None:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    cluster.ask(cluster.awake[0], SetLoggerLevel(namespace="org.example", level="DEBUG"))
    new_worker = cluster.add()
    cluster.settle()
    assert level(new_worker.loggers, "org.example") is None
    cluster.ask(cluster.awake[0], SetLoggerLevel(namespace="org.example", level="TRACE"))
    cluster.settle()
    assert level(new_worker.loggers, "org.example") == "TRACE"


def test_restarted_herder_does_not_reapply_levels() -> None:
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
    """Test a level that the REST API rejects, but that another program may have written to the config topic."""
    cluster = EmbeddedCluster(1)
    cluster.settle()
    [worker] = cluster.awake
    cluster.ask(worker, SetLoggerLevel(namespace="org.example", level="loud"))
    assert level(worker.loggers, "org.example") is None


def test_standalone_worker_sets_levels_without_a_record() -> None:
    worker = EmbeddedWorker()
    worker.ask(SetLoggerLevel(namespace="root", level="fatal"))
    assert worker.loggers.level("root") == LoggerLevel("FATAL", worker.scheduler.clock.wall_ms())
    assert records(worker.config_log) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_level_set_during_a_herder_restart_is_applied(seed: int) -> None:
    cluster = EmbeddedCluster(2, seed=seed)
    cluster.settle()
    crashed_worker, other_worker = cluster.alive
    cluster.crash(crashed_worker, "herder")
    cluster.ask(other_worker, SetLoggerLevel(namespace="org.example", level="DEBUG"))
    cluster.settle()
    assert level(crashed_worker.loggers, "org.example") == "DEBUG"
