"""Tests for the options of the Kafka clients that the engine creates."""

from __future__ import annotations

import logging

import pytest

from kraal.config.clients.layers import SOURCE_PRODUCER
from kraal.core.errors import ConfigInvalid
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine import client_options
from kraal.kafka.settings import LastClientError
from kraal.kafka.source_transactions import producer_settings

TASK = TaskId(ConnectorName("x"), 1)
WORKER = {"bootstrap.servers": "a:1", "producer.linger.ms": "9", "consumer.fetch.max.wait.ms": "7"}


def test_producer_options_layer_defaults_worker_settings_and_overrides() -> None:
    options = client_options.producer_options(WORKER, {"producer.override.acks": "1"}, "me")
    assert options["kafka.acks"] == "1"
    assert options["kafka.linger.ms"] == "9"
    assert options["kafka.enable.idempotence"] == "false"
    assert options["kafka.max.in.flight.requests.per.connection"] == "1"
    assert options["kafka.client.id"] == "me"
    assert options["kafka.bootstrap.servers"] == "a:1"


def test_transactional_producer_has_the_batching_defaults_of_sources() -> None:
    worker = {"bootstrap.servers": "a:1"}
    source_options = client_options.producer_options(worker, {}, "me")
    transactional_settings = producer_settings(worker, {}, TASK, "g", LastClientError())
    for key in ("acks", "linger.ms", "batch.size", "compression.type"):
        assert source_options[f"kafka.{key}"] == transactional_settings[key] == SOURCE_PRODUCER[key]
    assert source_options["kafka.buffer.memory"] == str(64 * 2**20)
    assert transactional_settings["queue.buffering.max.kbytes"] == str(64 * 2**10)


def test_worker_producer_has_source_settings_and_a_limited_delivery_timeout() -> None:
    options = client_options.worker_producer_configs(WORKER, {"producer.override.acks": "-1"})
    assert options is not None
    assert (
        options.items()
        >= {
            "acks": "-1",
            "batch.size": SOURCE_PRODUCER["batch.size"],
            "bootstrap.servers": "a:1",
            "client.id": "connector-producer-worker",
            "compression.type": SOURCE_PRODUCER["compression.type"],
            "delivery.timeout.ms": "10000",
            "enable.idempotence": "true",
            "linger.ms": "9",
            "max.in.flight.requests.per.connection": "5",
            "message.max.bytes": "1048576",
            "partitioner": "murmur2_random",
        }.items()
    )


@pytest.mark.parametrize(("configured", "expected"), [("0", "10000"), ("7000", "7000"), ("60000", "10000")])
def test_worker_producer_delivery_timeout_is_capped_at_ten_seconds(configured: str, expected: str) -> None:
    options = client_options.worker_producer_configs(
        WORKER, {"producer.override.delivery.timeout.ms": configured}
    )
    assert options is not None
    assert options["delivery.timeout.ms"] == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("interceptor.classes", "a.B"),
        ("partitioner.class", "org.apache.kafka.clients.producer.RoundRobinPartitioner"),
        ("partitioner.ignore.keys", "true"),
        ("transactional.id", "t"),
        ("batch.size", "many"),
        ("acks", "1"),
        ("enable.idempotence", "false"),
        ("retries", "0"),
        ("max.in.flight.requests.per.connection", "6"),
    ],
)
def test_unsupported_setting_excludes_the_worker_producer(key: str, value: str) -> None:
    assert client_options.worker_producer_configs(WORKER, {f"producer.override.{key}": value}) is None


def test_member_config_uses_librdkafka_names(caplog: pytest.LogCaptureFixture) -> None:
    connector = {"consumer.override.group.id": "g", "consumer.override.some.java.thing": "1"}
    with caplog.at_level(logging.WARNING):
        config = client_options.member_config(WORKER, connector, TASK)
    assert config["group.id"] == "g"
    assert config["client.id"] == "connector-consumer-x-1"
    assert config["fetch.wait.max.ms"] == "7"
    assert config["partition.assignment.strategy"] == "range"
    assert "some.java.thing" not in config
    assert "some.java.thing" in caplog.text


@pytest.mark.parametrize(
    ("settings", "heartbeat_ms"),
    [
        ({}, 3000),
        ({"session.timeout.ms": "30000"}, 3000),
        ({"session.timeout.ms": "6000"}, 1000),
        ({"session.timeout.ms": "6000", "heartbeat.interval.ms": "1500"}, 1500),
    ],
)
def test_short_session_timeout_reduces_the_heartbeat_interval(
    settings: dict[str, str], heartbeat_ms: int
) -> None:
    connector = {f"consumer.override.{key}": value for key, value in settings.items()}
    config = client_options.member_config(WORKER, connector, TASK)
    assert int(config["heartbeat.interval.ms"]) == heartbeat_ms


def test_admin_options_layer_admin_settings_and_overrides() -> None:
    worker = WORKER | {"admin.retry.backoff.ms": "300", "admin.request.timeout.ms": "1"}
    connector = {"admin.override.bootstrap.servers": "b:2", "admin.override.retry.backoff.ms": "400"}
    options = client_options.admin_options(worker, connector, "connector-adminclient-x-1")
    assert options["bootstrap.servers"] == "b:2"
    assert str(options["retry.backoff.ms"]) == "400"
    assert options["client.id"] == "connector-adminclient-x-1"
    with pytest.raises(ConfigInvalid) as raised:
        client_options.admin_options(worker, {"admin.override.retry.backoff.ms": "soon"}, "me")
    assert raised.value.errors[0].startswith(
        "Invalid value soon for configuration admin.override.retry.backoff.ms"
    )


def test_reader_options_omit_settings_that_spark_rejects() -> None:
    options = client_options.consumer_options(
        WORKER | {"consumer.auto.offset.reset": "latest"}, {"consumer.override.group.id": "g"}, "x"
    )
    assert "kafka.auto.offset.reset" not in options
    assert "kafka.group.id" not in options
    assert options["kafka.fetch.max.wait.ms"] == "7"


def test_only_range_options_shorten_the_fetch_wait() -> None:
    settings = {"bootstrap.servers": "a:1"}
    assert client_options.range_options(settings, "g")["kafka.fetch.max.wait.ms"] == "5"
    assert "kafka.fetch.max.wait.ms" not in client_options.reader_options(settings, "g")
    overridden = client_options.range_options({**settings, "fetch.max.wait.ms": "9"}, "g")
    assert overridden["kafka.fetch.max.wait.ms"] == "9"


def test_jaas_config_is_converted_to_username_and_password() -> None:
    jaas_config = 'org.example.PlainLoginModule required username="u" password="p";'
    worker = {
        "consumer.security.protocol": "SASL_PLAINTEXT",
        "consumer.sasl.mechanism": "PLAIN",
        "consumer.sasl.jaas.config": jaas_config,
    }
    config = client_options.member_config(worker, {}, TASK)
    assert (config["sasl.username"], config["sasl.password"]) == ("u", "p")


def test_topics_of_a_source_are_read_with_the_login_of_its_producer() -> None:
    worker = {
        "bootstrap.servers": "worker:9092",
        "consumer.security.protocol": "SSL",
        "consumer.max.poll.records": "7",
        "producer.security.protocol": "SASL_SSL",
        "producer.sasl.mechanism": "PLAIN",
    }
    connector = {"producer.override.bootstrap.servers": "target:9092"}
    assert client_options.written_topics_settings(worker, connector) == {
        "bootstrap.servers": "target:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "max.poll.records": "7",
    }
    config = client_options.written_topics_client_config(
        {"bootstrap.servers": "worker:9092"}, connector, "orders"
    )
    assert (config["bootstrap.servers"], config["group.id"]) == ("target:9092", "kraal-proof-orders")
