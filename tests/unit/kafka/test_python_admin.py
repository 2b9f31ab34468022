"""Tests that kafka-python's admin client supports all of Connect's client settings and leaks no thread."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaConfigurationError, KafkaError
from kafka.net.compat import KafkaNetClient

from kraal.config.clients.kafka_python import kafka_python_options
from kraal.kafka import python_admin
from kraal.kafka.python_admin import admin_client
from kraal.kafka.sockets import DIRECT
from kraal.kafka.tokens import TokenProvider
from tests.fakes.workers.worker_config import distributed


def options(scratch: Path) -> dict[str, Any]:
    """Return the options of the client with which a worker joins its group."""
    worker = distributed(bootstrap_servers="127.0.0.1:1", socket_connection_setup_timeout_ms="1234")
    return kafka_python_options(worker.group_client, scratch=scratch, tokens=TokenProvider)


def test_all_client_settings_reach_connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    client_options: dict[str, Any] = {}

    class RecordingClient(KafkaNetClient):  # type: ignore[misc]  # kafka-python is published without types
        def __init__(self, **configs: Any) -> None:
            client_options.update(configs)
            super().__init__(**configs)

    monkeypatch.setattr(python_admin, "KafkaNetClient", RecordingClient)
    expected = options(tmp_path)
    assert {*expected} - {*KafkaAdminClient.DEFAULT_CONFIG}, (
        "kafka-python accepts all settings, so admin_client is no longer needed"
    )
    with pytest.raises(KafkaError) as caught, admin_client(expected, bootstrap_timeout_s=0.2):
        pass
    assert not isinstance(caught.value, KafkaConfigurationError)
    assert client_options["socket_connection_setup_timeout_ms"] == 1234
    assert {key: client_options[key] for key in expected} == expected
    assert (client_options["proxy_url"], client_options["bootstrap_timeout_ms"]) == (DIRECT, 200)


def test_client_that_never_connected_leaks_no_thread(tmp_path: Path) -> None:
    threads_before = {*threading.enumerate()}
    with pytest.raises(KafkaError), admin_client(options(tmp_path), bootstrap_timeout_s=0.2):
        pass
    new_threads = {*threading.enumerate()} - threads_before
    for thread in new_threads:
        thread.join(5)
    assert [thread for thread in new_threads if thread.is_alive()] == []
