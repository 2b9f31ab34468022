"""Which lines of Java plugins appear by default."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kraal.java_plugins.loggers import show_plugin_lines

CHANGED = (
    *("", "kraal", "com", "io", "net", "org", "software", "org.apache.kafka"),
    *("org.apache.kafka.connect.file", "org.apache.kafka.connect.mirror", "org.apache.iceberg"),
)


@pytest.fixture(autouse=True)
def default_levels() -> Iterator[None]:
    """Levels as a worker has them when it starts; they are restored."""
    levels = {name: logging.getLogger(name).level for name in CHANGED}
    for name in CHANGED:
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
def test_lines_at_info_appear_from_plugins_only(name: str, *, is_shown: bool) -> None:
    show_plugin_lines(["software.example.Sink", "NoPackage"])
    assert logging.getLogger(name).isEnabledFor(logging.INFO) is is_shown


def test_level_that_is_set_already_stays() -> None:
    logging.getLogger("org").setLevel(logging.ERROR)
    show_plugin_lines([])
    assert logging.getLogger("org").level == logging.ERROR


def test_worker_that_logs_warnings_only_shows_no_lines_at_info() -> None:
    logging.getLogger("kraal").setLevel(logging.WARNING)
    show_plugin_lines([])
    assert not logging.getLogger("io.debezium").isEnabledFor(logging.INFO)
