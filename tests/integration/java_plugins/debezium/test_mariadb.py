"""Tests that Debezium's MariaDB source with a real server behaves as on a Java worker."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from kraal.broker.broker import Broker
from kraal.jars.jars import ensure
from kraal.testing import ProcessCluster
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    java_worker,
    kraal_worker,
    plugin_jvm,
    stored_offsets,
    unique_name,
)
from tests.tools.mariadb import PASSWORD, USER, MariaDB, mariadb

pytestmark = pytest.mark.slow

CONNECTOR = "io.debezium.connector.mariadb.MariaDbConnector"
VERSION = "3.5.0.Final"
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
TIMESTAMP_FIELDS = ("ts_ms", "ts_us", "ts_ns")
"""Fields that differ between two sources that read the same changes at the same positions."""
RUN_ID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Matches the identifier that Debezium gives to a run of a task."""
TABLE_SQL = """
    CREATE TABLE kinds (
        id bigint PRIMARY KEY, tiny tinyint, flag boolean, unsigned_id bigint unsigned, amount decimal(12, 3),
        real4 float, real8 double, short varchar(20), raw varbinary(20), day date, at datetime(6), clock time(3),
        zoned timestamp(3) NULL, kind enum('a', 'b'), some set('x', 'y'), tree json, bits bit(9), in_year year
    ) DEFAULT CHARSET utf8mb4;
    INSERT INTO kinds VALUES
        (1, -7, true, 18446744073709551615, 12345.678, 1.5, 0.1, 'déjà', x'0001ff', '1969-12-31',
         '2024-02-29 12:34:56.789012', '-23:59:59.999', '2024-02-29 12:34:56.789', 'b', 'x,y', '{"a": [1, null]}',
         b'101010101', 2024),
        (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
"""
CHANGES_SQL = """
    UPDATE kinds SET amount = 0.001, short = NULL WHERE id = 1;
    INSERT INTO kinds (id, short) VALUES (3, 'third');
    ALTER TABLE kinds ADD COLUMN later int;
    UPDATE kinds SET id = 4, later = 5 WHERE id = 3;
"""
LAST_CHANGE_SQL = "DELETE FROM kinds WHERE id = 2"
OPERATIONS = ["r", "r", "u", "c", "d", None, "c", "d", None]
"""The operations of the records: a snapshot of two rows, then the changes.

A changed key becomes a deletion, a tombstone and an insertion.
"""


@pytest.fixture(scope="module")
def database() -> Iterator[MariaDB]:
    """Run a server whose changes can be captured."""
    with mariadb() as server:
        server.ask(TABLE_SQL)
        yield server


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the properties of workers with Debezium's plugin."""
    directory = tmp_path_factory.mktemp("debezium")
    for archive in ensure("debezium-mariadb"):
        with tarfile.open(archive) as files:
            files.extractall(directory, filter="data")
    return {"plugin.path": str(directory), "offset.flush.interval.ms": "500"}


@pytest.fixture(scope="module")
def kraal_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: Mapping[str, str]
) -> Iterator[ProcessCluster]:
    """Run a Kraal worker."""
    with kraal_worker(tmp_path_factory.mktemp("kraal"), kafka.bootstrap, properties) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def java_cluster(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: Mapping[str, str]
) -> Iterator[MixedCluster]:
    """Run a Java worker in its own group."""
    with java_worker(tmp_path_factory.mktemp("java"), kafka.bootstrap, properties) as cluster:
        yield cluster


def source_config(cluster: ProcessCluster, database: MariaDB, name: str, server_id: int) -> dict[str, str]:
    """Return the config of a source of the table `kinds`, which writes to `<name>` and `<name>.test.kinds`."""
    return {
        "connector.class": CONNECTOR,
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.server.id": str(server_id),
        "database.ssl.mode": "disable",
        "topic.prefix": name,
        "table.include.list": "test.kinds",
        "schema.history.internal.kafka.bootstrap.servers": cluster.bootstrap,
        "schema.history.internal.kafka.topic": f"{name}-history",
        "key.converter": JSON_CONVERTER,
        "value.converter": JSON_CONVERTER,
    }


def list_topics(cluster: ProcessCluster, name: str) -> list[str]:
    """Return the topics whose names start with `name`, without this prefix."""
    topics = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=30).topics
    return sorted(topic.removeprefix(name) for topic in topics if topic.startswith(name))


def remove_timestamps(value: Any) -> Any:
    """Return a record without the timestamps of the connector and the database."""
    if isinstance(value, dict):
        return {key: remove_timestamps(item) for key, item in value.items() if key not in TIMESTAMP_FIELDS}
    return [remove_timestamps(item) for item in value] if isinstance(value, list) else value


def records(cluster: ProcessCluster, name: str, topic: str) -> list[Any]:
    """Return the partition, key, value and headers of each record of a topic. NAME replaces the connector's name."""

    def replace_name(text: bytes | None) -> bytes:
        return (text or b"").replace(name.encode(), b"NAME")

    def parse(text: bytes | None) -> Any:
        return remove_timestamps(json.loads(replace_name(text))) if text else None

    return [
        (
            record.partition,
            parse(record.key),
            parse(record.value),
            [(key, RUN_ID.sub(b"RUN", replace_name(value))) for key, value in record.headers],
        )
        for record in cluster.records(topic)
    ]


def last_offset(cluster: ProcessCluster, name: str) -> tuple[bytes, bytes] | None:
    """Return the key and the value of the last stored offset, or None. NAME replaces the connector's name."""
    offsets = [(key, value) for key, value in stored_offsets(cluster, name) if value]
    return offsets[-1] if offsets else None


def list_operations(changes: list[Any]) -> list[str | None]:
    return [value and value["payload"]["op"] for _, _, value, _ in changes]


def has_stored_position(cluster: ProcessCluster, name: str, position: object) -> bool:
    return get_transactions(last_offset(cluster, name)) == position


def test_snapshot_changes_and_offsets_match_java(
    kraal_cluster: ProcessCluster, java_cluster: MixedCluster, database: MariaDB
) -> None:
    names = {cluster: unique_name("dbz") for cluster in (kraal_cluster, java_cluster)}
    for number, (cluster, name) in enumerate(names.items()):
        cluster.create(name, source_config(cluster, database, name, 5000 + number))
    for cluster, name in names.items():
        cluster.alive[0].wait_for_states(name, RUNNING)
        wait_for_records(cluster, name, 2)
    database.ask(CHANGES_SQL)
    position = database.ask("SELECT @@gtid_binlog_pos")
    database.ask(LAST_CHANGE_SQL)
    results = []
    for cluster, name in names.items():
        wait_for_records(cluster, name, len(OPERATIONS))
        cluster.alive[0].wait_until(  # the offset of a change contains the transactions before it
            "the offset of the last change was stored", partial(has_stored_position, cluster, name, position)
        )
        topics = list_topics(cluster, name)
        changes = records(cluster, name, f"{name}.test.kinds")
        results.append((topics, changes, records(cluster, name, name), last_offset(cluster, name)))
    actual, expected = results
    for pair in zip(actual, expected, strict=True):
        assert pair[0] == pair[1]
    assert actual[0] == ["", "-history", ".test.kinds"]
    assert list_operations(actual[1]) == OPERATIONS
    assert all(headers for _, _, _, headers in actual[1])
    plugin_jvm(kraal_cluster.alive[0]).kill()
    database.ask("ALTER TABLE kinds ADD COLUMN last int; INSERT INTO kinds (id, last) VALUES (9, 99)")
    topic = f"{names[kraal_cluster]}.test.kinds"
    kraal_cluster.alive[0].wait_until(
        "the change made without a JVM arrived",
        lambda: len(kraal_cluster.records(topic)) > len(OPERATIONS),
    )
    kraal_cluster.alive[0].wait_for_states(names[kraal_cluster], RUNNING)
    changes = records(kraal_cluster, names[kraal_cluster], topic)
    assert list_operations(changes) == [*OPERATIONS, "c"]
    assert changes[-1][2]["payload"]["after"]["last"] == 99
    for cluster, name in names.items():
        cluster.delete(name)


def rest_responses(cluster: ProcessCluster, config: Mapping[str, str]) -> list[Any]:
    """Return the plugin's listing, the keys that it defines, and the error count and values of a validated config."""
    worker = cluster.alive[0]
    listing = [plugin for plugin in worker.get("/connector-plugins").body if plugin["class"] == CONNECTOR]
    keys = worker.get(f"/connector-plugins/{CONNECTOR}/config").body
    # Connect's keys come after the plugin's.
    plugin_keys = keys[: [key["name"] for key in keys].index("name")]
    validation = worker.put(f"/connector-plugins/{CONNECTOR}/config/validate", {**config, "name": "any"}).body
    names = {"connector.class", *(key["name"] for key in plugin_keys)}
    values = [entry["value"] for entry in validation["configs"] if entry["value"]]  # see docs/compat.md
    plugin_values = json.dumps([value for value in values if value["name"] in names])
    return [
        listing,
        plugin_keys,
        validation["error_count"],
        json.loads(re.sub(r"\(conn=\d+\)", "(conn=N)", plugin_values)),
    ]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="valid config"),
        pytest.param({"database.password": "wrong"}, id="wrong password"),
        pytest.param({"database.hostname": "", "snapshot.mode": "sometimes"}, id="invalid values"),
    ],
)
def test_rest_responses_match_java(
    kraal_cluster: ProcessCluster, java_cluster: MixedCluster, database: MariaDB, change: dict[str, str]
) -> None:
    config = source_config(kraal_cluster, database, "any", 6000) | change
    actual, expected = (rest_responses(cluster, config) for cluster in (kraal_cluster, java_cluster))
    assert actual == expected
    listing, plugin_keys, errors, values = actual
    assert listing == [{"class": CONNECTOR, "type": "source", "version": VERSION}]
    assert len(plugin_keys) > 50
    assert len(values) > 50
    assert (errors > 0) == bool(change)


def get_transactions(offset: tuple[bytes, bytes] | None) -> list[str]:
    return [json.loads(offset[1])["gtids"]] if offset else []


def wait_for_records(cluster: ProcessCluster, name: str, count: int) -> None:
    topic = f"{name}.test.kinds"
    cluster.alive[0].wait_until(f"{topic} had {count} records", lambda: len(cluster.records(topic)) == count)
