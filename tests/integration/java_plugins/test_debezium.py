"""Debezium's PostgreSQL source and JDBC sink, on real servers, next to a Java worker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kraal.broker.broker import Broker
from kraal.jars.jars import ensure
from kraal.plugin_lock import change
from kraal.plugin_lock.java import plugin_path
from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PASSWORD, USER, PostgreSQL, postgresql
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.flows import (
    RUNNING,
    a_name,
    java_worker,
    kraal_worker,
    plugin_jvm,
    scrape,
)

pytestmark = pytest.mark.ci

JSON = "org.apache.kafka.connect.json.JsonConverter"
TYPES = """
    CREATE TABLE kinds (
        id bigint PRIMARY KEY, small smallint, whole int, real4 real, real8 double precision, amount numeric(12, 3),
        loose numeric, yes boolean, short varchar(20), long text, raw bytea, at timestamp, zoned timestamptz, day date,
        clock time, tree jsonb, unique_id uuid, many int[], span interval
    );
    INSERT INTO kinds VALUES
        (1, -7, 70000, 1.5, 0.1, 12345.678, 1e-9, true, 'déjà', 'vu', '\\x0001ff', '2024-02-29 12:34:56.789012',
         '2024-02-29 12:34:56.789012+05:30', '1969-12-31', '23:59:59.999999', '{"a": [1, null]}',
         '00000000-0000-0000-0000-000000000001', '{1,2,NULL}', '1 year 2 days'),
        (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    ALTER TABLE kinds REPLICA IDENTITY FULL;
"""
CHANGES = """
    UPDATE kinds SET amount = 0.001, long = NULL WHERE id = 1;
    INSERT INTO kinds (id, short) VALUES (3, 'third');
    DELETE FROM kinds WHERE id = 2;
"""


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    """A server whose changes can be followed."""
    with postgresql("wal_level=logical") as server:
        server.ask(TYPES)
        yield server


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The properties of workers with Debezium's plugins, added to a lock; the PostgreSQL source in two versions."""
    lock = tmp_path_factory.mktemp("debezium") / "plugins.lock"
    change.add(
        lock, [str(archive) for group in ("debezium", "debezium-earlier") for archive in ensure(group)]
    )
    return {
        "kraal.plugins.lock": str(lock),
        "plugin.path": str(plugin_path(lock)),
        "offset.flush.interval.ms": "500",
        "plugin.discovery": "hybrid_warn",
    }


@pytest.fixture(scope="module")
def kraal(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: Mapping[str, str]
) -> Iterator[ProcessCluster]:
    """A Kraal worker."""
    with kraal_worker(tmp_path_factory.mktemp("kraal"), kafka.bootstrap, properties) as made:
        yield made


@pytest.fixture(scope="module")
def java(
    kafka: Broker, tmp_path_factory: pytest.TempPathFactory, properties: Mapping[str, str]
) -> Iterator[MixedCluster]:
    """A Java worker of a group of its own."""
    with java_worker(tmp_path_factory.mktemp("java"), kafka.bootstrap, properties) as made:
        yield made


def source(database: PostgreSQL, name: str, table: str) -> dict[str, str]:
    """Return the config of a source with a slot of its own; its topic is NAME.public.TABLE."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": USER,
        "database.password": PASSWORD,
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "publication.name": f"p_{name.replace('-', '_')}",
        "publication.autocreate.mode": "filtered",
        "slot.name": f"s_{name.replace('-', '_')}",
        "slot.drop.on.stop": "true",
        "topic.prefix": name,
        "table.include.list": f"public.{table}",
        "key.converter": JSON,
        "value.converter": JSON,
    }


def without_moments(value: Any) -> Any:
    """Return a record without what differs from run to run: times, positions and transaction numbers."""
    if isinstance(value, dict):
        moments = ("ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "name", "xmin")
        return {key: without_moments(each) for key, each in value.items() if key not in moments}
    return [without_moments(each) for each in value] if isinstance(value, list) else value


def records(side: ProcessCluster, topic: str) -> list[tuple[Any, Any]]:
    def read(text: bytes | None) -> Any:
        return without_moments(json.loads(text)) if text else None

    return [(read(each.key), read(each.value)) for each in side.records(topic)]


def wait_for_records(side: ProcessCluster, topic: str, count: int) -> None:
    side.alive[0].wait_until(f"{topic} had {count} records", lambda: len(side.records(topic)) == count)


def test_snapshot_and_changes_are_those_of_a_java_worker(
    kraal: ProcessCluster, java: MixedCluster, database: PostgreSQL
) -> None:
    names = {side: a_name("dbz") for side in (kraal, java)}
    for side, name in names.items():
        side.create(name, source(database, name, "kinds"))
    for side, name in names.items():
        side.alive[0].wait_for_states(name, RUNNING)
        wait_for_records(side, f"{name}.public.kinds", 2)
    database.ask(CHANGES)
    found = []
    for side, name in names.items():
        topic = f"{name}.public.kinds"
        wait_for_records(side, topic, 6)  # an update, an insertion, and a deletion with its tombstone
        found.append(json.loads(json.dumps(records(side, topic)).replace(name, "NAME")))
    assert found[0] == found[1]
    lags = scrape(kraal.alive[0]).all_of("debezium_metrics_MilliSecondsBehindSource")
    labels = {("plugin", "postgres"), ("name", names[kraal]), ("context", "streaming")}
    assert len([lag for known, lag in lags.items() if labels <= known]) == 1
    for side, name in names.items():
        side.delete(name)


def answers(side: ProcessCluster, config: Mapping[str, str], version: str) -> list[Any]:
    """Return what REST says of a version: the list, its own keys, and the values of a config that wants it."""
    worker, plugin = side.alive[0], config["connector.class"]
    listed = [each for each in worker.get("/connector-plugins").body if each["class"] == plugin]
    answer = worker.get(f"/connector-plugins/{plugin}/config?version={version}")
    own = answer.body[: [each["name"] for each in answer.body].index("name")] if answer.status == 200 else []
    wanted = {**config, "name": "any", "connector.plugin.version": version}
    checked = worker.put(f"/connector-plugins/{plugin}/config/validate", wanted).body
    values = [each["value"] for each in checked["configs"] if each["value"]]  # see docs/compat.md
    names = {each["name"] for each in own} | {"connector.class", "connector.plugin.version"}
    return [
        listed,
        answer.status,
        own,
        checked["error_count"],
        [each for each in values if each["name"] in names],
    ]


def test_two_versions_run_next_to_each_other(
    kraal: ProcessCluster, java: MixedCluster, database: PostgreSQL
) -> None:
    database.ask("CREATE TABLE both_versions (id int PRIMARY KEY); INSERT INTO both_versions VALUES (1)")
    names = {version: a_name("dbz") for version in ("3.6.1.Final", "3.7.0.Final")}
    for version, name in names.items():
        wanted = {"connector.plugin.version": version}
        kraal.create(name, source(database, name, "both_versions") | wanted)
    for version, name in names.items():
        topic = f"{name}.public.both_versions"
        kraal.alive[0].wait_for_states(name, RUNNING)
        wait_for_records(kraal, topic, 1)
        assert records(kraal, topic)[0][1]["payload"]["source"]["version"] == version
        status = kraal.alive[0].get(f"/connectors/{name}/status").body
        assert [status["connector"]["version"], status["tasks"][0]["version"]] == [version, version]
    for version in (*names, "3.5"):
        config = source(database, "any", "both_versions")
        mine, its = (answers(side, config, version) for side in (kraal, java))
        assert mine == its
    for name in names.values():
        kraal.delete(name)


def slot_position(database: PostgreSQL, name: str) -> str:
    slot = f"s_{name.replace('-', '_')}"
    (position,) = database.ask(
        f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'"  # noqa: S608
    )
    return position


def test_changes_reach_a_second_table_whatever_is_killed(kraal: ProcessCluster, database: PostgreSQL) -> None:
    database.ask("CREATE TABLE people (id int PRIMARY KEY, name text); INSERT INTO people VALUES (1, 'one')")
    name, worker = a_name("copy"), kraal.alive[0]
    kraal.create(name, source(database, name, "people") | {"slot.drop.on.stop": "false"})
    kraal.create(
        f"{name}-sink",
        {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "topics": f"{name}.public.people",
            "connection.url": database.url,
            "connection.username": USER,
            "connection.password": PASSWORD,
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "schema.evolution": "basic",
            "collection.name.format": "copies",
            "key.converter": JSON,
            "value.converter": JSON,
        },
    )

    def copied(*rows: str) -> None:
        def done() -> bool:
            known = database.ask("SELECT to_regclass('copies') IS NOT NULL") == ["t"]
            return known and database.ask("SELECT id, name FROM copies ORDER BY id") == list(rows)

        worker.wait_until(f"the copy was {rows}", done)

    copied("1|one")
    before = slot_position(database, name)
    database.ask("INSERT INTO people VALUES (2, 'two'); UPDATE people SET name = 'ONE' WHERE id = 1")
    plugin_jvm(worker).kill()
    database.ask("DELETE FROM people WHERE id = 2; INSERT INTO people VALUES (3, 'three')")
    copied("1|ONE", "3|three")
    worker.wait_until("the slot moved on", lambda: slot_position(database, name) > before)
    worker.wait_for_states(name, RUNNING)
    worker.wait_for_states(f"{name}-sink", RUNNING)
    assert worker.get(f"/connectors/{name}/offsets").body["offsets"]
    for each in (f"{name}-sink", name):
        kraal.delete(each)
