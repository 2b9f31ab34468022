"""Tests that the embedded broker is a real Kafka broker, and that Kraal manages no other brokers."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner, Result
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from kraal.broker.broker import Broker, free_port
from kraal.cli.main import main
from kraal.jars.errors import BrokerError


def run_kraal_kafka(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["kafka", *arguments])


def get_pid(broker: Broker) -> int | None:
    return broker.pid  # a function, because mypy assumes that properties do not change


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        producer.send(topic, value, partition=0).get(timeout=30)
    finally:
        producer.close()


def read_first_value(bootstrap: str, topic: str) -> bytes:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    try:
        consumer.assign([TopicPartition(topic, 0)])
        value: bytes = next(consumer).value
        return value
    finally:
        consumer.close()


def test_produced_record_is_consumed(bootstrap: str) -> None:
    produce(bootstrap, "embedded-one", b"hello")
    assert read_first_value(bootstrap, "embedded-one") == b"hello"


def test_records_survive_a_kill_and_stop_stops_the_broker(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "kafka", free_port(), extra={"num.partitions": "2"})
    try:
        broker.start()
        first_pid = get_pid(broker)
        assert broker.start() == broker.bootstrap
        assert get_pid(broker) == first_pid
        produce(broker.bootstrap, "kept", b"still here")
        assert broker.kill()
        assert get_pid(broker) is None
        broker.start()
        assert get_pid(broker) not in {None, first_pid}
        assert read_first_value(broker.bootstrap, "kept") == b"still here"
        listening_addresses = {
            c.laddr.ip for c in psutil.Process(broker.pid).net_connections() if c.status == "LISTEN"
        }
        assert listening_addresses <= {"127.0.0.1", "::ffff:127.0.0.1"}
    finally:
        broker.stop()
    assert get_pid(broker) is None
    assert broker.stop() is False


def test_foreign_broker_is_not_stopped(kafka: Broker, tmp_path: Path) -> None:
    options = ["--data-dir", str(tmp_path), "--port", str(kafka.port)]
    start_result = run_kraal_kafka("start", *options)
    assert (start_result.exit_code, start_result.stderr.count("\n")) == (1, 1)
    assert f"Cannot use port {kafka.port} on 127.0.0.1" in start_result.stderr
    stop_result = run_kraal_kafka("stop", *options)
    assert (stop_result.exit_code, stop_result.stderr.count("\n")) == (1, 1)
    assert "Kraal did not start it" in stop_result.stderr
    assert kafka.status().is_ready


def test_broker_does_not_start_on_a_used_port_or_data_directory(kafka: Broker, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert run_kraal_kafka("start", "--data-dir", str(tmp_path), "--port", str(port)).exit_code == 1
    second_broker = Broker(kafka.data_dir, free_port())
    with pytest.raises(BrokerError, match=f"is already running on port {kafka.port}"):
        second_broker.start()


def test_invalid_settings_are_reported_with_the_reason(tmp_path: Path) -> None:
    broker = Broker(tmp_path, free_port(), extra={"log.retention.bytes": "many"})
    with pytest.raises(BrokerError, match=r"log\.retention\.bytes"):
        broker.start()
    assert broker.pid is None


def test_command_line_shows_the_status_and_stops_the_broker(tmp_path: Path) -> None:
    options = ["--data-dir", str(tmp_path), "--port", str(free_port())]
    start_result = run_kraal_kafka("start", *options)
    assert (start_result.exit_code, start_result.stdout.startswith("Kafka is ready on 127.0.0.1:")) == (
        0,
        True,
    )
    assert run_kraal_kafka("status", *options).exit_code == 0
    assert run_kraal_kafka("stop", *options).output == "Kafka stopped\n"
    assert run_kraal_kafka("status", *options).exit_code == 1
