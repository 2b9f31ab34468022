"""Tests for the connectors: validation of configs, and whole workers whose tasks and processes are killed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.tables.config import CATALOG_PACKAGES
from kraal.connectors.tables.delta import DeltaLakeTable
from kraal.connectors.tables.iceberg import IcebergTable
from kraal.connectors.tables.sink import (
    DeltaSinkConnector,
    DeltaSinkTask,
    IcebergSinkConnector,
    IcebergSinkTask,
    TableSinkConnector,
    TableSinkTask,
)
from kraal.converters.json.converter import JsonConverter
from kraal.journal.events import EventKind
from kraal.plugins.api import SinkBatch, TableReport, TopicPartition
from kraal.plugins.registry import Registry
from kraal.plugins.validation.validate import validate_for_rest
from kraal.testing import Cluster
from tests.fakes.tables.records import Record, envelope, event, field, row, struct, tombstone
from tests.fakes.workers.worker_config import Defaults
from tests.unit.connectors.tables.conftest import Lake

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
JSON = {"key.converter": "JsonConverter", "value.converter": "JsonConverter"}


@pytest.fixture
def config(lake: Lake) -> dict[str, str]:
    common = {"name": "sink", "topics": "t", "commit.interval.ms": "0", **JSON}
    if lake.kind == "delta":
        return common | {"connector.class": "DeltaSink", "table": str(lake.path / "orders")}
    return common | {
        "connector.class": "IcebergSink",
        "table": "shop.orders",
        "iceberg.catalog.type": "sql",
        "iceberg.catalog.uri": f"sqlite:///{lake.path}/catalog/catalog.db",
        "iceberg.catalog.warehouse": f"file://{lake.path}/warehouse",
    }


def connector_class(lake: Lake) -> type[TableSinkConnector]:
    return IcebergSinkConnector if lake.kind == "iceberg" else DeltaSinkConnector


def find_errors(lake: Lake, config: dict[str, str]) -> dict[str, str]:
    values = connector_class(lake).validate(config)
    return {value.name: "; ".join(value.errors) for value in values if value.errors}


def names(lake: Lake) -> dict[int, Any]:
    """Return the rows of the table; empty if it does not exist."""
    return {} if lake.open().load([]).handle is None else dict(lake.names())


def write(cluster: Cluster, *records: Record) -> None:
    for key, value in records:
        cluster.write("t", value, key=key)


@pytest.mark.parametrize("seed", range(3))
def test_table_equals_the_topic_after_kills(lake: Lake, config: dict[str, str], seed: int) -> None:
    plugins = [IcebergSinkConnector, DeltaSinkConnector]
    with Cluster(workers=2, plugins=plugins, seed=seed) as c:
        write(c, *(event("c", number, "a") for number in range(5)))
        c.create("sink", {**config, "write.mode": "cdc"})
        c.wait_until("the rows arrive", lambda: len(names(lake)) == 5)
        c.kill_actor("task sink-0")
        write(c, event("u", 1, "b"), event("d", 2), tombstone(2))
        c.kill_worker(c.owner("sink-0"))
        write(c, event("c", 9, "z"))
        c.wait_until("the changes arrive", lambda: 9 in names(lake))
        c.settle()
    assert names(lake) == {0: "a", 1: "b", 3: "a", 4: "a", 9: "z"}


def test_table_determines_the_offset_of_a_new_connector(lake: Lake, config: dict[str, str]) -> None:
    with Cluster(workers=1, plugins=[connector_class(lake)]) as c:
        write(c, *(row(number, "a") for number in range(3)))
        c.create("sink", config)
        c.wait_until("the rows arrive", lambda: len(names(lake)) == 3)
        c.settle()
    with Cluster(
        workers=1, plugins=[connector_class(lake)]
    ) as c:  # without the offsets of the consumer group
        write(c, *(row(number, "b") for number in range(5)))
        c.create("sink", config)
        c.wait_until("the rows arrive", lambda: len(names(lake)) == 5)
        c.settle()
    assert names(lake) == {0: "a", 1: "a", 2: "a", 3: "b", 4: "b"}


def test_record_without_a_key_fails_the_task(lake: Lake, config: dict[str, str]) -> None:
    with Cluster(workers=1, plugins=[connector_class(lake)]) as c:
        write(c, row(1, "a"), row(None, "x"), row(2, "b"))
        c.create("sink", {**config, "write.mode": "upsert"})
        c.wait_until("the task fails", lambda: c.states("sink")[1:] == ["FAILED"])
        assert "the column id of its key is null or missing" in c.status("sink")["tasks"][0]["trace"]
        assert names(lake) == {}


def test_tolerated_record_is_left_out(lake: Lake, config: dict[str, str]) -> None:
    with Cluster(workers=1, plugins=[connector_class(lake)]) as c:
        write(c, row(1, "a"), row(None, "x"), row(2, "b"))
        c.create("sink", {**config, "write.mode": "upsert", "errors.tolerance": "all"})
        c.wait_until("the other rows arrive", lambda: names(lake) == {1: "a", 2: "b"})
        c.settle()
        assert c.states("sink") == ["RUNNING", "RUNNING"]
    assert lake.offset(TopicPartition("t", 0)) == 3


def test_tables_of_several_topics_are_equal_to_them_after_a_kill(lake: Lake, config: dict[str, str]) -> None:
    prefix = f"{lake.path}/" if lake.kind == "delta" else "shop."
    settings = {"topics": "t,u", "table": prefix + "${topic}", "tasks.max": "2"}
    with Cluster(workers=2, plugins=[connector_class(lake)]) as c:
        for topic, number in (("t", 1), ("u", 2), ("u", 3)):
            key, value = row(number, topic)
            c.write(topic, value, key=key)
        c.create("sink", {**config, **settings})
        c.wait_until("the rows arrive", lambda: len(read(lake, prefix + "u")) == 2)
        c.kill_worker(c.owner("sink-0"))
        write(c, row(4, "t"))
        c.wait_until("the last row arrives", lambda: len(read(lake, prefix + "t")) == 2)
        c.settle()
    assert sorted(read(lake, prefix + "t")) == [(1, "t"), (4, "t")]
    assert sorted(read(lake, prefix + "u")) == [(2, "u"), (3, "u")]


def read(lake: Lake, name: str) -> list[tuple[int, str]]:
    """Return the rows of a table; empty if it does not exist."""
    table = (
        DeltaLakeTable(name, "sink")
        if lake.kind == "delta"
        else IcebergTable(lake.open_catalog, name, "sink")
    )
    handle = table.load([]).handle
    if handle is None:
        return []
    rows = handle.to_pyarrow_table() if lake.kind == "delta" else handle.scan().to_arrow()
    return [(item["id"], item["name"]) for item in rows.to_pylist()]


def test_worker_shows_tables_and_changes_of_their_schemas(lake: Lake, config: dict[str, str]) -> None:
    wider = struct(field("id", "int32"), field("name"), field("note", "int32"))
    with Cluster(workers=1, plugins=[connector_class(lake)]) as c:
        write(c, row(1, "a"))
        c.create("sink", config)
        c.wait_until("the first row arrives", lambda: len(names(lake)) == 1)
        write(c, row(2, "b", wider, note=7))
        c.wait_until("the second row arrives", lambda: len(names(lake)) == 2)
        c.settle()
        [worker] = c.embedded.workers
        events = worker.assembly.journal.events.after(None, 1_000)
        table = lake.open().name
        assert [event.text for event in events if event.kind is EventKind.SCHEMA] == [
            f"{table}: add column note int32, because of t-0@1"
        ]
        labels = f'{{connector="sink",task="0",table="{table}"}}'
        assert f"kraal_table_rows{labels} 2\n" in worker.metrics()


def test_values_of_other_converters_keep_their_schemas(lake: Lake, config: dict[str, str]) -> None:
    with Cluster(workers=1, plugins=[connector_class(lake)]) as c:
        c.write("t", row(1, "a")[1], key="k")
        c.create("sink", {**config, "key.converter": "StringConverter"})
        c.wait_until("the row arrives", lambda: names(lake) == {1: "a"})
    assert lake.read().schema.field("id").type == pa.int32()


def test_offsets_of_a_stopped_connector_are_those_of_the_table(lake: Lake, config: dict[str, str]) -> None:
    partition = TopicPartition("t", 0)
    connector = connector_class(lake)()
    assert connector.alter_sink_offsets(config, {partition: 5}), "without a table, only the group has offsets"
    with Cluster(workers=1, plugins=[connector_class(lake)]) as c:
        write(c, row(1, "a"), row(2, "b"))
        c.create("sink", config)
        c.wait_until("the rows arrive", lambda: len(names(lake)) == 2)
        c.settle()
    assert connector.alter_sink_offsets(config, {partition: 1})
    assert lake.offset(partition) == 1
    assert connector.alter_sink_offsets(config, {partition: None})
    assert lake.offset(partition) is None


def test_reset_concerns_all_partitions_that_the_table_has_offsets_for(
    lake: Lake, config: dict[str, str]
) -> None:
    committed, others = TopicPartition("t", 0), [TopicPartition("t", 2), TopicPartition("t", 700)]
    connector = connector_class(lake)()
    assert set(connector.stored_sink_partitions(config, [committed])) == set()
    lake.writer("append").write(row(1, "a"))
    table = lake.open()
    table.set_offsets(table.load([]), dict.fromkeys(others, 5))
    assert set(connector.stored_sink_partitions(config, [committed])) >= set(others)
    assert connector.alter_sink_offsets(config, dict.fromkeys(others))
    assert not set(connector.stored_sink_partitions(config, [committed])) & set(others)


def test_offsets_of_tables_that_a_field_names_cannot_be_altered(lake: Lake, config: dict[str, str]) -> None:
    connector = connector_class(lake)()
    routed = {**config, "table": config["table"] + "_${route}", "table.route.field": "region"}
    assert find_errors(lake, routed) == {}
    for request in (connector.alter_sink_offsets, connector.stored_sink_partitions):
        with pytest.raises(ValueError, match="depend on the field region of the records"):
            request(routed, {TopicPartition("t", 0): None})


def test_policies_that_require_other_keys_are_errors_without_them(lake: Lake, config: dict[str, str]) -> None:
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dlq"}
    config = {**config, "schema.evolution": "dead-letter"}
    assert "requires errors.tolerance=all and" in find_errors(lake, config)["schema.evolution"]
    assert find_errors(lake, config | letters) == {}
    marks = {"delete.handling.mode": "rewrite"}
    assert (
        "requires write.mode=upsert or cdc"
        in find_errors(lake, config | letters | marks)["delete.handling.mode"]
    )
    assert find_errors(lake, config | letters | marks | {"write.mode": "cdc"}) == {}


def test_smallest_config_is_valid(lake: Lake, config: dict[str, str]) -> None:
    del config["commit.interval.ms"]
    assert find_errors(lake, config | {"write.mode": "cdc"}) == {}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("write.mode", "merge", "String must be one of: append, upsert, cdc"),
        ("schema.evolution", "always", "String must be one of: evolve, fail, ignore, dead-letter"),
        ("delete.handling.mode", "drop", "String must be one of: delete, rewrite"),
        ("partition.by", "week(a)", "unknown transform week"),
        ("table.topic.regex", "(", "Invalid regex"),
        ("commit.interval.ms", "-1", "at least 0"),
        ("commit.records", "0", "at least 1"),
        ("commit.bytes", "0", "at least 1"),
        ("id.columns", "a,a", "must not be duplicated"),
        ("table", "", "must be non-empty"),
        ("table", "orders", "expected"),
        ("unavailable.value.placeholder", None, ""),
    ],
)
def test_invalid_value_is_an_error(
    lake: Lake, config: dict[str, str], key: str, value: str | None, message: str
) -> None:
    if value is None:
        config.pop(key, None)
        assert find_errors(lake, config) == {}
    else:
        assert message in find_errors(lake, config | {key: value})[key]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("iceberg.catalog.type", "memory", "String must be one of: sql, rest, hive, glue"),
        ("iceberg.catalog.type", None, "Missing required configuration"),
        ("iceberg.catalog.uri", None, "a catalog of type sql requires its URL"),
        ("iceberg.catalog.warehouse", None, "a catalog of type sql requires the location of its tables"),
    ],
)
def test_invalid_catalog_is_an_error(tmp_path: Path, key: str, value: str | None, message: str) -> None:
    config = {
        "table": "shop.orders",
        "iceberg.catalog.type": "sql",
        "iceberg.catalog.uri": "sqlite:////lake/catalog.db",
        "iceberg.catalog.warehouse": "file:///lake",
    }
    changed = {name: text for name, text in (config | {key: value}).items() if text is not None}
    assert message in find_errors(Lake("iceberg", tmp_path), changed)[key]


def test_delta_refuses_partition_transforms(lake: Lake, config: dict[str, str]) -> None:
    errors = find_errors(lake, config | {"partition.by": "country, day(at)", "sort.by": "at desc"})
    if lake.kind == "delta":
        assert "a Delta table is partitioned by columns only" in errors["partition.by"]
    else:
        assert errors == {}
        assert "listed twice" in find_errors(lake, config | {"sort.by": "a, a"})["sort.by"]


def test_contradictory_name_of_a_table_is_an_error(lake: Lake, config: dict[str, str]) -> None:
    errors = find_errors(lake, config | {"table": config["table"] + "_${1}"})
    assert "requires a table.topic.regex" in errors["table"]


def test_missing_package_is_an_error_that_names_the_extra(
    lake: Lake, config: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert "pip install 'kraal[lake]'" in find_errors(lake, config)["table"]


@pytest.mark.parametrize(("catalog_type", "package"), CATALOG_PACKAGES.items())
def test_missing_client_of_a_catalog_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, catalog_type: str, package: str
) -> None:
    config = {
        "table": "shop.orders",
        "iceberg.catalog.type": catalog_type,
        "iceberg.catalog.uri": "thrift://a:1",
    }
    lake = Lake("iceberg", tmp_path)
    assert find_errors(lake, config) == {}
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == package else object())
    assert f"pip install 'pyiceberg[{catalog_type}]'" in find_errors(lake, config)["iceberg.catalog.type"]


def test_task_sets_the_pace_of_its_batches(lake: Lake, config: dict[str, str]) -> None:
    task: TableSinkTask = IcebergSinkTask() if lake.kind == "iceberg" else DeltaSinkTask()
    reports: list[TableReport] = []
    context: Any = SimpleNamespace(connector="sink", task=0, report_table=reports.append)
    task.start(
        config | {"commit.interval.ms": "2500", "commit.records": "7", "commit.bytes": "1000"}, context
    )
    assert (task.batch_interval_s, task.max_batch_records, task.max_batch_bytes) == (2.5, 7, 1000)
    partition = TopicPartition("t", 0)
    assert task.stored_offsets([partition]) == {}
    columns: dict[str, Any] = {"topic": ["t"], "partition": [0], "offset": [4], "headers": [None]}
    columns["timestamp"] = pa.array([1_700_000_000_000], pa.timestamp("ms", "UTC"))
    table = pa.table(
        {
            **columns,
            "key": [None],
            "value": [envelope({"type": "struct", "fields": [{"field": "id", "type": "int32"}]}, {"id": 1})],
        }
    )
    task.write(SinkBatch(table=table, ranges={partition: (4, 5)}))
    assert lake.read().to_pylist() == [{"id": 1}]
    assert task.stored_offsets([partition]) == {partition: 5}
    assert reports[0].version is None, "the table does not exist"
    assert [report.offsets for report in reports] == [{partition: None}, {partition: 5}, {partition: 5}]
    assert reports[-1].timestamps_ms == {partition: 1_700_000_000_000}


def test_configs_of_the_documentation_are_valid() -> None:
    """The converters are those of the worker: JsonConverter with schemas."""
    page = (Path(__file__).parents[4] / "docs" / "connectors" / "tables.md").read_text("utf-8")
    registry = Registry.of(
        {
            "kraal.connectors.tables.IcebergSinkConnector": IcebergSinkConnector,
            "kraal.connectors.tables.DeltaSinkConnector": DeltaSinkConnector,
            JSON_CONVERTER: JsonConverter,
        }
    )
    worker = Defaults(key_converter=JSON_CONVERTER, value_converter=JSON_CONVERTER)
    configs = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    assert [config["connector.class"] for config in configs] == ["IcebergSink", "DeltaSink"] * 2
    for config in configs:
        infos = validate_for_rest(registry, worker, config["connector.class"], {"name": "orders", **config})
        errors = {info.value.name: info.value.errors for info in infos.configs if info.value.errors}
        assert errors == {}
