"""Tests for the Kafka clients of dead letters: the worker's settings, and the rejection of other brokers."""

from __future__ import annotations

from typing import Any

import pytest

from kraal.dead_letters.api import KafkaUnavailable
from kraal.dead_letters.selection import NoDeadLetters
from kraal.worker import dead_letters
from kraal.worker.dead_letters import dead_letter_clients

WORKER = {
    "bootstrap.servers": "here:1",
    "security.protocol": "SSL",
    "ssl.truststore.location": "/trust.pem",
    "producer.linger.ms": "7",
    "consumer.fetch.max.wait.ms": "8",
    "admin.request.timeout.ms": "9",
    "admin.listeners": "",
    "group.id": "workers",
    "config.storage.topic": "workers-configs",
    "offset.storage.topic": "workers-offsets",
    "status.storage.topic": " workers-status ",
}
SECURITY = {"security.protocol": "SSL", "ssl.truststore.location": "/trust.pem"}


@pytest.fixture
def recorded_settings(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    client_settings: list[Any] = []
    monkeypatch.setattr(
        dead_letters,
        "Kafka",
        lambda consumer, **options: client_settings.append({"consumer": consumer, **options}),
    )
    return client_settings


def test_clients_have_the_workers_settings(recorded_settings: list[Any]) -> None:
    dead_letter_clients(WORKER)({"producer.override.linger.ms": "100"})
    assert recorded_settings == [
        {
            "consumer": {**SECURITY, "bootstrap.servers": "here:1", "fetch.max.wait.ms": "8"},
            "producer": {**SECURITY, "bootstrap.servers": "here:1", "linger.ms": "7"},
            "admin": {**SECURITY, "bootstrap.servers": "here:1", "request.timeout.ms": "9"},
            "request_timeout_s": 5.0,
            "write_timeout_s": 20.0,
            "internal": frozenset({"workers-configs", "workers-offsets", "workers-status"}),
        }
    ]


@pytest.mark.parametrize("client", ["producer", "consumer"])
def test_connector_with_other_brokers_is_rejected(recorded_settings: list[Any], client: str) -> None:
    key = f"{client}.override.bootstrap.servers"
    with pytest.raises(NoDeadLetters, match=rf"\({key}=there:1\)"):
        dead_letter_clients(WORKER)({key: "there:1"})
    dead_letter_clients(WORKER)({key: "here:1"})
    with pytest.raises(NoDeadLetters):
        dead_letter_clients({**WORKER, "producer.bootstrap.servers": "there:1"})({})
    assert len(recorded_settings) == 1


def test_unavailable_kafka_fails_after_the_request_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dead_letters, "_REQUEST_TIMEOUT_S", 0.2)
    unavailable_clients = dead_letter_clients({"bootstrap.servers": "127.0.0.1:1"})({})
    error = r"^Kafka at 127\.0\.0\.1:1 failed to list topics: "
    with unavailable_clients as kafka, pytest.raises(KafkaUnavailable, match=error):
        _ = kafka.partitions
