"""Tests for the validation of delivery guarantees on workers with exactly-once source support (KIP-618)."""

from __future__ import annotations

import pytest

from kraal.config.worker.distributed import parse_distributed
from kraal.plugins.registry import Registry
from kraal.plugins.worker_plugins import WorkerPlugins
from tests.fakes.workers.worker_config import MINIMAL_CONFIG

ENABLED_WORKER = WorkerPlugins(
    Registry.load(), parse_distributed({**MINIMAL_CONFIG, "exactly.once.source.support": "enabled"})
)
PREPARING_WORKER = WorkerPlugins(
    Registry.load(), parse_distributed({**MINIMAL_CONFIG, "exactly.once.source.support": "preparing"})
)
FILE_SOURCE = {"connector.class": "FileStreamSource", "file": "/f", "topic": "t"}
TEXT_SOURCE = {"connector.class": "SparkSource", "spark.format": "text", "path": "/", "topic": "t"}
JDBC_SOURCE = {**TEXT_SOURCE, "spark.format": "jdbc", "jdbc.url": "jdbc:postgresql://h/d", "jdbc.tables": "a"}
MIRROR_SOURCE = {
    "connector.class": "MirrorSource",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "h:1",
    "target.cluster.bootstrap.servers": "h:2",
}
READS_COMMITTED = {"source.consumer.isolation.level": "read_committed"}
UNSUPPORTED_ERROR = "The connector does not support exactly-once semantics with the provided configuration."
UNKNOWN_SUPPORT_ERROR = "The connector does not implement the API required for preflight validation"


def find_errors(key: str, config: dict[str, str], plugins: WorkerPlugins = ENABLED_WORKER) -> list[str]:
    infos = plugins.check({"name": "n", "exactly.once.support": "required", **config})
    return [error for info in infos.configs if info.value.name == key for error in info.value.errors]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (FILE_SOURCE, None),
        ({"connector.class": "VerifiableSource", "topic": "t", "throughput": "1"}, None),
        (TEXT_SOURCE, None),
        ({**JDBC_SOURCE, "jdbc.incrementing.column": "id"}, None),
        ({**JDBC_SOURCE, "jdbc.mode": "bulk"}, UNSUPPORTED_ERROR),
        ({**TEXT_SOURCE, "spark.format": "python", "spark.datasource": "m:C"}, UNKNOWN_SUPPORT_ERROR),
        (MIRROR_SOURCE, UNSUPPORTED_ERROR),
        ({**MIRROR_SOURCE, **READS_COMMITTED}, None),
        ({**MIRROR_SOURCE, **READS_COMMITTED, "trigger": "realtime"}, UNSUPPORTED_ERROR),
    ],
)
def test_exactly_once_support_is_validated(config: dict[str, str], expected: str | None) -> None:
    messages = find_errors("exactly.once.support", config)
    assert [message[: len(expected or "")] for message in messages] == (
        [] if expected is None else [expected]
    )


def test_worker_in_preparing_mode_does_not_support_exactly_once() -> None:
    assert find_errors("exactly.once.support", FILE_SOURCE, PREPARING_WORKER) == [
        "This worker does not have exactly-once source support enabled."
    ]


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"transaction.boundary.interval.ms": "60000"}, None),
        ({"transaction.boundary.interval.ms": "60001"}, "60000"),
        ({"transaction.boundary.interval.ms": "9", "producer.override.transaction.timeout.ms": "8"}, "8"),
        ({"producer.override.transaction.timeout.ms": "59999"}, "59999"),
        ({"transaction.boundary.interval.ms": "60001", "transaction.boundary": "poll"}, None),
        ({"transaction.boundary.interval.ms": "0"}, None),
    ],
)
def test_interval_above_the_transaction_timeout_is_rejected(
    config: dict[str, str], limit: str | None
) -> None:
    key = "transaction.boundary.interval.ms"
    messages = find_errors(key, {**FILE_SOURCE, "transaction.boundary": "interval", **config})
    timeout_errors = [message for message in messages if "transaction.timeout.ms" in message]
    value = config.get(key, "60000")
    text = (
        f"Invalid value {value} for configuration {key}: must be at most transaction.timeout.ms of the producer "
        f"({limit}); set a smaller interval, or a larger producer.override.transaction.timeout.ms"
    )
    assert timeout_errors == ([] if limit is None else [text])


@pytest.mark.parametrize("predicate", ["p", " p ", "nobody"])
def test_unlisted_predicate_is_an_error_of_its_key(predicate: str) -> None:
    key = "transforms.t.predicate"
    config = {
        **FILE_SOURCE, "transforms": "t", "transforms.t.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.t.field": "f", key: predicate, "predicates": "p",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }  # fmt: skip
    error = f"Invalid value {predicate} for configuration {key}: not in predicates, which names: p"
    assert find_errors(key, config) == ([error] if predicate == "nobody" else [])


@pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])
def test_only_connector_defined_transaction_boundaries_are_rejected(boundary: str) -> None:
    messages = find_errors("transaction.boundary", {**FILE_SOURCE, "transaction.boundary": boundary})
    text = (
        "The connector does not support connector-defined transaction boundaries with the given configuration. Please "
        "reconfigure it to use a different transaction boundary definition."
    )
    assert messages == ([text] if boundary == "connector" else [])


def test_transaction_keys_are_unused_without_exactly_once_support(caplog: pytest.LogCaptureFixture) -> None:
    config = {**FILE_SOURCE, "name": "n", "offsets.storage.topic": "o", "transaction.boundary": "interval"}
    ENABLED_WORKER.make(config)
    assert caplog.records == []
    PREPARING_WORKER.make(config)
    assert [record.getMessage() for record in caplog.records] == [
        "Connector n: these settings have no effect: offsets.storage.topic, transaction.boundary"
    ]
