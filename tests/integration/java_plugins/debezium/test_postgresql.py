"""Tests that Debezium's PostgreSQL source and JDBC sink with a real server behave as on a Java worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from kraal.broker.broker import Broker
from kraal.jars.jars import ensure
from kraal.plugin_lock import change
from kraal.plugin_lock.java import plugin_path
from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PASSWORD, USER, PostgreSQL, postgresql
from tests.fakes.workers.java_worker import MixedCluster
from tests.integration.java_plugins.debezium.records import last_offset, read_normalized, records
from tests.integration.java_plugins.flows import (
    RUNNING,
    has_restarted,
    java_worker,
    kraal_worker,
    plugin_jvm,
    scrape,
    unique_name,
)

pytestmark = pytest.mark.ci

VERSIONS = ("3.6.1.Final", "3.7.0.Final")
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
TABLE_SQL = """
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
CHANGES_SQL = """
    UPDATE kinds SET amount = 0.001, long = NULL WHERE id = 1;
    INSERT INTO kinds (id, short) VALUES (3, 'third');
    DELETE FROM kinds WHERE id = 2;
"""


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    """Run a server whose changes can be captured."""
    with postgresql("wal_level=logical", "max_replication_slots=20", "max_wal_senders=20") as server:
        yield server


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the properties of workers with Debezium's plugins, including two versions of the PostgreSQL source."""
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


def source_config(database: PostgreSQL, name: str, table: str) -> dict[str, str]:
    """Return the config of a source with its own replication slot. The topic is `<name>.public.<table>`."""
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
        "key.converter": JSON_CONVERTER,
        "value.converter": JSON_CONVERTER,
    }


def sink_config(database: PostgreSQL, topic: str, table: str) -> dict[str, str]:
    """Return the config of a sink that creates a table, and updates and deletes the rows of the table."""
    return {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": topic,
        "connection.url": database.url,
        "connection.username": USER,
        "connection.password": PASSWORD,
        "insert.mode": "upsert",
        "delete.enabled": "true",
        "primary.key.mode": "record_key",
        "schema.evolution": "basic",
        "collection.name.format": table,
        "key.converter": JSON_CONVERTER,
        "value.converter": JSON_CONVERTER,
    }


def wait_for_records(cluster: ProcessCluster, topic: str, count: int) -> None:
    cluster.alive[0].wait_until(f"{topic} had {count} records", lambda: len(cluster.records(topic)) == count)


@pytest.mark.one_a_day("version")
@pytest.mark.parametrize("version", VERSIONS)
def test_snapshot_and_changes_match_java(
    kraal_cluster: ProcessCluster, java_cluster: MixedCluster, database: PostgreSQL, version: str
) -> None:
    table = f"kinds_{VERSIONS.index(version)}"
    database.ask(TABLE_SQL.replace("kinds", table))
    names = {cluster: unique_name("dbz") for cluster in (kraal_cluster, java_cluster)}
    for cluster, name in names.items():
        cluster.create(name, source_config(database, name, table) | {"connector.plugin.version": version})
    for cluster, name in names.items():
        cluster.alive[0].wait_for_states(name, RUNNING)
        wait_for_records(cluster, f"{name}.public.{table}", 2)
    database.ask(CHANGES_SQL.replace("kinds", table))
    results = []
    for cluster, name in names.items():
        topic = f"{name}.public.{table}"
        wait_for_records(cluster, topic, 6)  # an update, an insertion, and a deletion with its tombstone
        results.append(read_normalized(cluster, name, topic))
    actual, expected = results
    assert actual == expected
    for text in (f'"version":"{version}"', '"name":"io.debezium.time.MicroTimestamp"', '"name":"NAME"'):
        assert text.encode() in actual[0][2]
    assert all(headers for _, _, _, headers in actual)
    for cluster, name in names.items():
        cluster.alive[0].wait_until("the last offset was stored", partial(has_stored_deletion, cluster, name))
    assert last_offset(kraal_cluster, names[kraal_cluster]) == last_offset(java_cluster, names[java_cluster])
    kraal_cluster.alive[0].wait_until(
        "there was one MBean", lambda: count_mbeans(kraal_cluster, names[kraal_cluster]) == 1
    )
    for cluster, name in names.items():
        cluster.delete(name)


def count_mbeans(cluster: ProcessCluster, name: str) -> int:
    """Return the number of streaming MBeans of a source."""
    lags = scrape(cluster.alive[0]).all_of("debezium_metrics_MilliSecondsBehindSource")
    labels = {("plugin", "postgres"), ("name", name), ("context", "streaming")}
    return len([lag for key, lag in lags.items() if labels <= key])


def test_restarts_register_debezium_mbeans_once(kraal_cluster: ProcessCluster, database: PostgreSQL) -> None:
    """Reported in risingwavelabs/risingwave#23511."""
    database.ask("CREATE TABLE restarted (id int PRIMARY KEY); INSERT INTO restarted VALUES (0)")
    name, worker = unique_name("restarted"), kraal_cluster.alive[0]
    kraal_cluster.create(name, source_config(database, name, "restarted") | {"slot.drop.on.stop": "false"})
    wait_for_records(kraal_cluster, f"{name}.public.restarted", 1)
    wait_for_offset(kraal_cluster, name)
    for number in (1, 2):
        kraal_cluster.restart(name)
        worker.wait_until(
            "the connector had restarted",
            lambda: has_restarted(kraal_cluster, name, number, "RUNNING"),  # noqa: B023
        )
        database.ask(f"INSERT INTO restarted VALUES ({number})")  # noqa: S608
        wait_for_records(kraal_cluster, f"{name}.public.restarted", number + 1)
        worker.wait_until("there was one MBean", lambda: count_mbeans(kraal_cluster, name) == 1)
    assert worker.states(name) == RUNNING
    for complaint in ("Unable to register", "InstanceAlreadyExists"):
        assert complaint not in worker.log_text()
    kraal_cluster.delete(name)


def has_stored_deletion(cluster: ProcessCluster, name: str) -> bool:
    return b"DELETE" in last_offset(cluster, name)[1]


UNWRAP_CONFIG = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.delete.tombstone.handling.mode": "tombstone",
    "transforms.unwrap.add.fields": "op,table",
}


def test_flattened_rows_and_target_database_match_java(
    kraal_cluster: ProcessCluster, java_cluster: MixedCluster, database: PostgreSQL
) -> None:
    database.ask(
        "CREATE TABLE flat (id int PRIMARY KEY, name text, amount numeric(8, 2));"
        "ALTER TABLE flat REPLICA IDENTITY FULL"
    )
    database.ask("INSERT INTO flat VALUES (1, 'one', 1.10), (2, 'two', NULL), (3, 'déjà', -3)")
    names = {cluster: unique_name("flat") for cluster in (kraal_cluster, java_cluster)}
    for cluster, name in names.items():
        cluster.create(name, source_config(database, name, "flat") | UNWRAP_CONFIG)
        cluster.create(f"{name}-sink", sink_config(database, f"{name}.public.flat", get_target_table(name)))
    for cluster, name in names.items():
        wait_for_records(cluster, f"{name}.public.flat", 3)
    database.ask(
        "UPDATE flat SET amount = 7 WHERE id = 1; DELETE FROM flat WHERE id = 2; INSERT INTO flat VALUES (4, NULL, 4)"
    )
    topics, tables = [], []
    for cluster, name in names.items():
        wait_for_records(cluster, f"{name}.public.flat", 6)
        topics.append(read_normalized(cluster, name, f"{name}.public.flat"))
        cluster.alive[0].wait_until(
            "all rows were copied", partial(has_ids, database, get_target_table(name), ["1", "3", "4"])
        )
        tables.append(database.ask(f"SELECT * FROM {get_target_table(name)} ORDER BY id"))  # noqa: S608
    assert topics[0] == topics[1]
    assert '"name":"déjà"'.encode() in topics[0][2][2]
    assert tables[0] == tables[1]
    for cluster, name in names.items():
        for connector in (f"{name}-sink", name):
            cluster.delete(connector)


def get_target_table(name: str) -> str:
    """Return the table that a sink writes."""
    return f"copy_{name.replace('-', '_')}"


def has_ids(database: PostgreSQL, table: str, ids: list[str]) -> bool:
    exists = database.ask(f"SELECT to_regclass('{table}') IS NOT NULL") == ["t"]
    return exists and database.ask(f"SELECT id FROM {table} ORDER BY id") == ids  # noqa: S608


def rest_responses(cluster: ProcessCluster, config: Mapping[str, str], version: str) -> list[Any]:
    """Return a plugin's listing, the keys of one version, and the validation of a config that requires the version."""
    worker, plugin = cluster.alive[0], config["connector.class"]
    listing = [entry for entry in worker.get("/connector-plugins").body if entry["class"] == plugin]
    response = worker.get(f"/connector-plugins/{plugin}/config?version={version}")
    plugin_keys = (
        response.body[: [key["name"] for key in response.body].index("name")]
        if response.status == 200
        else []
    )
    versioned_config = {**config, "name": "any", "connector.plugin.version": version}
    validation = worker.put(f"/connector-plugins/{plugin}/config/validate", versioned_config).body
    values = [entry["value"] for entry in validation["configs"] if entry["value"]]  # see docs/compat.md
    names = {key["name"] for key in plugin_keys} | {"connector.class", "connector.plugin.version"}
    return [
        listing,
        response.status,
        plugin_keys,
        validation["error_count"],
        [value for value in values if value["name"] in names],
    ]


def test_two_versions_run_concurrently(
    kraal_cluster: ProcessCluster, java_cluster: MixedCluster, database: PostgreSQL
) -> None:
    database.ask("CREATE TABLE both_versions (id int PRIMARY KEY); INSERT INTO both_versions VALUES (1)")
    names = {version: unique_name("dbz") for version in VERSIONS}
    for version, name in names.items():
        version_config = {"connector.plugin.version": version}
        kraal_cluster.create(name, source_config(database, name, "both_versions") | version_config)
    for version, name in names.items():
        topic = f"{name}.public.both_versions"
        kraal_cluster.alive[0].wait_for_states(name, RUNNING)
        wait_for_records(kraal_cluster, topic, 1)
        assert records(kraal_cluster, topic)[0][1]["payload"]["source"]["version"] == version
        status = kraal_cluster.alive[0].get(f"/connectors/{name}/status").body
        assert [status["connector"]["version"], status["tasks"][0]["version"]] == [version, version]
    for version in (*names, "3.5"):
        config = source_config(database, "any", "both_versions")
        actual, expected = (
            rest_responses(cluster, config, version) for cluster in (kraal_cluster, java_cluster)
        )
        assert actual == expected
    for name in names.values():
        kraal_cluster.delete(name)


def wait_for_offset(cluster: ProcessCluster, name: str) -> None:
    """Wait until a source has stored an offset. Without an offset, Debezium would repeat its snapshot."""
    path = f"/connectors/{name}/offsets"
    cluster.alive[0].wait_until(
        "an offset was stored", lambda: bool(cluster.alive[0].get(path).body["offsets"])
    )


def slot_position(database: PostgreSQL, name: str) -> int:
    """Return the confirmed flush position of a source's replication slot, as a number."""
    slot = f"s_{name.replace('-', '_')}"
    (position,) = database.ask(
        f"SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'"  # noqa: S608
    )
    high, low = position.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def test_changes_reach_a_second_table_despite_kills(
    kraal_cluster: ProcessCluster, database: PostgreSQL
) -> None:
    database.ask("CREATE TABLE people (id int PRIMARY KEY, name text); INSERT INTO people VALUES (1, 'one')")
    name, worker = unique_name("copy"), kraal_cluster.alive[0]
    kraal_cluster.create(name, source_config(database, name, "people") | {"slot.drop.on.stop": "false"})
    # The sink's consumer is killed with the JVM. Its partition is reassigned after this timeout.
    short_timeout = {"consumer.override.session.timeout.ms": "6000"}
    kraal_cluster.create(
        f"{name}-sink", sink_config(database, f"{name}.public.people", "copies") | short_timeout
    )

    def wait_for_rows(*rows: str) -> None:
        def has_rows() -> bool:
            exists = database.ask("SELECT to_regclass('copies') IS NOT NULL") == ["t"]
            return exists and database.ask("SELECT id, name FROM copies ORDER BY id") == list(rows)

        worker.wait_until(f"the copied rows were {rows}", has_rows)

    wait_for_rows("1|one")
    wait_for_offset(kraal_cluster, name)
    position_before = slot_position(database, name)
    database.ask("INSERT INTO people VALUES (2, 'two'); UPDATE people SET name = 'ONE' WHERE id = 1")
    plugin_jvm(worker).kill()
    database.ask("DELETE FROM people WHERE id = 2; INSERT INTO people VALUES (3, 'three')")
    wait_for_rows("1|ONE", "3|three")
    worker.wait_until("the slot advanced", lambda: slot_position(database, name) > position_before)
    worker.wait_for_states(name, RUNNING)
    worker.wait_for_states(f"{name}-sink", RUNNING)
    assert worker.get(f"/connectors/{name}/offsets").body["offsets"]
    for connector in (f"{name}-sink", name):
        kraal_cluster.delete(connector)


def test_changes_arrive_after_the_database_crashed_or_stalled(
    kraal_cluster: ProcessCluster, database: PostgreSQL
) -> None:
    database.ask("CREATE TABLE shaken (id int PRIMARY KEY); INSERT INTO shaken VALUES (1)")
    name, worker = unique_name("shaken"), kraal_cluster.alive[0]
    retry_config = {"slot.drop.on.stop": "false", "retriable.restart.connector.wait.ms": "500"}
    kraal_cluster.create(name, source_config(database, name, "shaken") | retry_config)
    wait_for_records(kraal_cluster, f"{name}.public.shaken", 1)
    wait_for_offset(kraal_cluster, name)
    position_before = slot_position(database, name)
    outages: list[Callable[[], None]] = [database.crash, partial(database.freeze, 3.0)]
    for number, outage in enumerate(outages, start=1):
        database.ask(f"INSERT INTO shaken VALUES ({2 * number})")  # noqa: S608
        outage()
        database.ask(f"INSERT INTO shaken VALUES ({2 * number + 1})")  # noqa: S608

    def has_all_changes() -> bool:
        restart_failed(kraal_cluster, name)
        return {key["payload"]["id"] for key, _ in records(kraal_cluster, f"{name}.public.shaken")} == set(
            range(1, 6)
        )

    worker.wait_until("all changes arrived", has_all_changes)
    worker.wait_until("the slot advanced", lambda: slot_position(database, name) > position_before)
    worker.wait_for_states(name, RUNNING)
    kraal_cluster.delete(name)


def restart_failed(cluster: ProcessCluster, name: str) -> None:
    """Restart failed tasks as a user would, because Debezium may give up before the database has recovered."""
    if "FAILED" in cluster.alive[0].states(name):
        cluster.restart(name, only_failed=True)
