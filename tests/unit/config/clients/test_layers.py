from __future__ import annotations

import pytest

from kraal.config.clients.layers import bootstrap, merge_layers

WORKER = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SSL",
    "ssl.truststore.location": "/worker.p12",
    "ssl.client.auth": "none",
    "producer.acks": "1",
    "producer.linger.ms": "9",
    "admin.listeners": "http://:1",
    "admin.listeners.https.ssl.keystore.location": "/rest.p12",
    "admin.retries": "2",
    "producer.override.acks": "0",
}
SECURITY = {"security.protocol": "SSL", "ssl.truststore.location": "/worker.p12"}


def test_connector_overrides_take_precedence() -> None:
    connector = {"producer.override.linger.ms": "1", "consumer.override.linger.ms": "2", "linger.ms": "3"}
    assert merge_layers(WORKER, connector, "producer") == {**SECURITY, "acks": "1", "linger.ms": "1"}
    assert merge_layers(WORKER, connector, "consumer") == {**SECURITY, "linger.ms": "2"}


def test_admin_listeners_are_not_admin_client_settings() -> None:
    assert merge_layers(WORKER, {}, "admin") == {**SECURITY, "retries": "2"}


@pytest.mark.parametrize("configured_in", ["worker", "connector"])
def test_client_with_own_protocol_does_not_inherit_security(configured_in: str) -> None:
    worker = WORKER | ({"consumer.security.protocol": "PLAINTEXT"} if configured_in == "worker" else {})
    connector = {"consumer.override.security.protocol": "PLAINTEXT"} if configured_in == "connector" else {}
    assert merge_layers(worker, connector, "consumer") == {"security.protocol": "PLAINTEXT"}


def test_most_specific_bootstrap_servers_take_precedence() -> None:
    assert bootstrap(WORKER, {}, "producer") == "a:1"
    worker = WORKER | {"producer.bootstrap.servers": "b:2"}
    assert bootstrap(worker, {}, "producer") == "b:2"
    assert bootstrap(worker, {"producer.override.bootstrap.servers": "c:3"}, "producer") == "c:3"


def test_values_are_trimmed() -> None:
    settings = merge_layers({"producer.acks": "all\t"}, {"producer.override.linger.ms": " 5 "}, "producer")
    assert settings == {"acks": "all", "linger.ms": "5"}
