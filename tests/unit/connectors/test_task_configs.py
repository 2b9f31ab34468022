"""Tests that the task configs of the file connectors match those of Java's connectors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typing_extensions import override

from kraal.cluster.decisions.task_configs import with_task_class
from kraal.connectors.file.sink import FileStreamSinkConnector
from kraal.connectors.file.source import FileStreamSourceConnector
from kraal.plugins.api import ConnectorContext, task_class_name
from tests.golden_files import current

GOLDEN = current("records", "distributed-configs.jsonl")
CONNECTOR_CLASSES = {"FileStreamSource": FileStreamSourceConnector, "FileStreamSink": FileStreamSinkConnector}


def recorded_pairs() -> list[Any]:
    """Return pairs of a connector config and the config of its first task, as recorded with Java."""
    configs: dict[str, dict[str, str]] = {}
    pairs = []
    for line in GOLDEN.read_text(encoding="utf-8").strip().split("\n"):
        row = json.loads(line)
        kind, _, name = row["key"].partition("-")
        if kind == "connector" and row["value"]:
            configs[name] = json.loads(row["value"])["properties"]
        elif kind == "task":
            name, _, number = name.rpartition("-")
            config = configs[name]
            if number == "0":
                properties = json.loads(row["value"])["properties"]
                pairs.append(pytest.param(config, properties, id=f"{row['offset']} {name}"))
    return pairs


@pytest.mark.parametrize(("config", "java_config"), recorded_pairs())
def test_task_configs_match_java(config: dict[str, str], java_config: dict[str, str]) -> None:
    """A difference would restart or misconfigure tasks when a connector moves between Java and Kraal."""
    simple_name = config["connector.class"].rpartition(".")[2].removesuffix("Connector")
    connector = CONNECTOR_CLASSES[simple_name]()
    connector.start(config, _Context())
    configs = with_task_class(connector.task_configs(2), task_class_name(connector.task_class), config)
    assert configs[0] == java_config


class _Context(ConnectorContext):
    @override
    def request_task_reconfiguration(self) -> None:
        raise AssertionError

    @override
    def raise_error(self, error: BaseException) -> None:
        raise AssertionError from error
