"""Tests for the default log levels of Java plugins."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kraal.java_plugins.loggers import set_plugin_log_levels

LOGGERS = (
    *("", "kraal", "com", "io", "net", "org", "software", "org.apache.kafka"),
    *("org.apache.kafka.connect.file", "org.apache.kafka.connect.mirror", "org.apache.iceberg"),
)


@pytest.fixture(autouse=True)
def default_levels() -> Iterator[None]:
    """Set the log levels that a worker sets at startup. Restore the previous levels after the test."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.NOTSET)
    logging.root.setLevel(logging.WARNING)
    logging.getLogger("kraal").setLevel(logging.INFO)
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.parametrize(
    ("name", "is_shown"),
    [
        ("io.debezium.connector.postgresql.PostgresConnectorTask", True),
        ("software.example.Sink", True),
        ("org.apache.hadoop.util.NativeCodeLoader", True),
        ("org.apache.kafka.connect.mirror.MirrorSourceTask", True),
        ("org.apache.kafka.clients.consumer.ConsumerConfig", False),
        ("aiokafka.consumer", False),
    ],
)
def test_only_plugins_log_at_info(name: str, *, is_shown: bool) -> None:
    set_plugin_log_levels(["software.example.Sink", "NoPackage"])
    assert logging.getLogger(name).isEnabledFor(logging.INFO) is is_shown


def test_existing_log_level_is_kept() -> None:
    logging.getLogger("org").setLevel(logging.ERROR)
    set_plugin_log_levels([])
    assert logging.getLogger("org").level == logging.ERROR


def test_plugins_do_not_log_at_info_if_kraal_logs_warnings_only() -> None:
    logging.getLogger("kraal").setLevel(logging.WARNING)
    set_plugin_log_levels([])
    assert not logging.getLogger("io.debezium").isEnabledFor(logging.INFO)
