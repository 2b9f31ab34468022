"""Tests that `kraal prove` compares topics with the tables of Debezium's PostgreSQL source and of its JDBC sink."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from kraal.broker.broker import Broker
from kraal.connectors.debezium.postgresql import is_in_snapshot
from kraal.jars.jars import ensure
from kraal.plugin_lock import change
from kraal.plugin_lock.java import plugin_path
from kraal.proof.result import format_lines
from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PASSWORD, PostgreSQL, postgresql
from tests.integration.java_plugins.debezium.test_postgresql import (
    CHANGES_SQL,
    TABLE_SQL,
    UNWRAP_CONFIG,
    sink_config,
    source_config,
    wait_for_records,
)
from tests.integration.java_plugins.flows import RUNNING, kraal_worker, plugin_jvm, unique_name

pytestmark = pytest.mark.ci

PROOF_TIMEOUT_S = 240.0
NOT_COMPARED = ["many (integer[])", "span (interval)"]
VARIANTS: Mapping[str, tuple[Mapping[str, str], list[str]]] = {
    "envelopes": (
        {"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "1"},
        [],
    ),
    "flat": (
        {
            **UNWRAP_CONFIG,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "time.precision.mode": "connect",
            "decimal.handling.mode": "string",
            "binary.handling.mode": "hex",
        },
        [],
    ),
    "doubles": (
        {
            "transforms": "unwrap",
            "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
            "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
            "time.precision.mode": "nanoseconds",
            "decimal.handling.mode": "double",
            "binary.handling.mode": "base64-url-safe",
            "column.mask.with.3.chars": r"public\..*\.short",
            "column.exclude.list": r".*\.long",
        },
        ["short (masked)"],
    ),
}
"""Forms of records, and the columns that are not compared in addition to `NOT_COMPARED`."""


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    """Run a server whose changes can be captured."""
    with postgresql("wal_level=logical", "max_replication_slots=20", "max_wal_senders=20") as server:
        yield server


@pytest.fixture(scope="module")
def cluster(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Run a worker with Debezium's plugins; Spark has no JDBC driver of its own."""
    lock = tmp_path_factory.mktemp("debezium") / "plugins.lock"
    change.add(lock, [str(archive) for archive in ensure("debezium")])
    properties = {
        "kraal.plugins.lock": str(lock),
        "plugin.path": str(plugin_path(lock)),
        "offset.flush.interval.ms": "500",
        "plugin.discovery": "hybrid_warn",
    }
    with kraal_worker(tmp_path_factory.mktemp("kraal"), kafka.bootstrap, properties) as cluster:
        yield cluster


def prove(cluster: ProcessCluster, name: str) -> dict[str, Any]:
    """Prove the delivery of a connector; return the REST response."""
    worker = cluster.alive[0]
    assert worker.post(f"/connectors/{name}/proof").status == 202

    def has_ended() -> bool:
        return bool(worker.get(f"/connectors/{name}/proof").body["state"] != "RUNNING")

    worker.wait_until("the proof had ended", has_ended, timeout_s=PROOF_TIMEOUT_S)
    state: dict[str, Any] = worker.get(f"/connectors/{name}/proof").body
    if state["result"] is not None:
        assert list(format_lines(state))
    return state


def get_keys(state: Mapping[str, Any], kind: str) -> list[tuple[str, Any]]:
    """Return the tables and keys of missing or unexpected rows."""
    fields = state["result"][kind]
    keys = [(key["table"], key["key"]) for key in fields["keys"]]
    assert fields["rows"] == len(keys)
    return keys


@contextmanager
def captured(
    cluster: ProcessCluster,
    database: PostgreSQL,
    table: str,
    count: int,
    settings: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Run a source of a table until its topic has `count` records; yield its name."""
    name = unique_name("proof")
    cluster.create(
        name, {**source_config(database, name, table), "poll.interval.ms": "100", **(settings or {})}
    )
    cluster.alive[0].wait_for_states(name, RUNNING)
    wait_for_records(cluster, f"{name}.public.{table}", count)
    worker = cluster.alive[0]

    def has_completed_snapshot() -> bool:
        offsets = worker.get(f"/connectors/{name}/offsets").body["offsets"]
        return bool(offsets) and not is_in_snapshot(offsets[0]["offset"])

    worker.wait_until("the offset after the snapshot was stored", has_completed_snapshot)
    yield name
    cluster.delete(name)


@contextmanager
def changes(database: PostgreSQL, sql: Callable[[int], str]) -> Iterator[None]:
    """Execute statements one after another, without pauses, until the end of the block."""
    has_ended, errors = threading.Event(), list[Exception]()

    def run() -> None:
        number = 0
        while not has_ended.is_set():
            number += 1
            try:
                database.ask(sql(number))
            except Exception as error:  # noqa: BLE001 - the test fails with the error
                errors.append(error)
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()
    assert errors == []


def insert_rows(database: PostgreSQL, table: str, last: int) -> None:
    """Insert rows with the ids from 100 to `last` and values of all types."""
    database.ask(
        f"INSERT INTO {table} SELECT n, n, -n, n / 3.0, -n / 7.0, n * 1000.001 - 5000000, n * -1e-7, n % 2 = 0,"  # noqa: S608
        " 'short ' || n, repeat('ü', n % 50), decode(lpad(to_hex(n), 8, '0'), 'hex'),"
        " timestamp '1900-01-01' + n * interval '13 days 7 minutes 1.000001 s',"
        " timestamptz '1950-01-01' + n * interval '3 days 0.5 s', date '1815-06-18' + n,"
        " time '00:00' + n * interval '1.00001 s', jsonb_build_object('n', n), gen_random_uuid(), NULL, NULL"
        f" FROM generate_series(100, {last}) n"
    )


@pytest.mark.one_a_day("variant")
@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_of_all_types_are_proved(cluster: ProcessCluster, database: PostgreSQL, variant: str) -> None:
    settings, not_compared = VARIANTS[variant]
    table = f"kinds_{variant}"
    database.ask(TABLE_SQL.replace("kinds", table))
    insert_rows(database, table, 2000)
    database.ask(
        f"INSERT INTO {table} (id, real8, at, zoned, day, loose) VALUES"  # noqa: S608
        " (10, 'NaN', 'infinity', '-infinity', '-infinity', 123456789012345678901234567890.5),"
        " (11, '-Infinity', '1700-01-01', '2999-12-31 23:59:59.999999Z', '9999-12-31', -0.05)"
    )
    with captured(cluster, database, table, 1905, settings) as name:
        database.ask(CHANGES_SQL.replace("kinds", table))
        # An update, an insertion, and a deletion, which has an event and a tombstone unless the records are flat.
        wait_for_records(cluster, f"{name}.public.{table}", 1909 if variant == "envelopes" else 1908)
        state = prove(cluster, name)
        assert (state["state"], state["reason"]) == ("PROVED", None), state
        result = state["result"]
        assert (result["expected_rows"], result["stored_rows"]) == (1905, 1905)
        assert set(result["not_compared"]) == {
            f"public.{table}.{text}" for text in (*NOT_COMPARED, *not_compared)
        }
        assert [offset["partition"] for offset in result["source_offsets"]] == [{"server": name}]


def edit_unpublished(database: PostgreSQL, name: str, sql: str) -> None:
    """Change rows of the table `people` in such a way that Debezium does not receive the changes."""
    publication = f"p_{name.replace('-', '_')}"
    database.ask(f"ALTER PUBLICATION {publication} DROP TABLE people")
    database.ask(sql)
    database.ask(f"ALTER PUBLICATION {publication} ADD TABLE people")


def test_changes_behind_the_back_of_debezium_are_located_by_their_keys(
    cluster: ProcessCluster, database: PostgreSQL
) -> None:
    database.ask(
        "CREATE TABLE people (id int PRIMARY KEY, name text); CREATE TABLE busy (id int PRIMARY KEY, n int);"
        "INSERT INTO people SELECT n, 'name ' || n FROM generate_series(1, 10000) n; INSERT INTO busy VALUES (1, 0)"
    )
    both_tables = {
        "table.include.list": "public.people,public.busy",
        "publication.autocreate.mode": "filtered",
    }
    with captured(cluster, database, "people", 10_000, both_tables) as name:
        assert prove(cluster, name)["state"] == "PROVED"
        edit_unpublished(
            database,
            name,
            "UPDATE people SET name = 'other' WHERE id = 3; DELETE FROM people WHERE id = 4;"
            "INSERT INTO people VALUES (10001, 'new')",
        )
        topic = f"{name}.public.people"
        forged = json.loads(cluster.records(topic)[6].value or b"")
        forged["payload"]["after"]["name"] = "forged"
        key = cluster.records(topic)[6].key
        assert key is not None
        cluster.write(topic, json.dumps(forged), key=key)
        deleted_key = key.replace(b'"id":7', b'"id":8')
        assert deleted_key != key
        cluster.write(topic, None, key=deleted_key)
        cluster.write(topic, "nonsense", key="no key")
        missing, unexpected = [3, 7, 8, 10001], [3, 4, 7]
        for sql in (
            None,
            "UPDATE busy SET n = {number}; UPDATE people SET name = 'v{number}' WHERE id = 9999",
        ):
            if sql is None:
                state = prove(cluster, name)
            else:
                with changes(database, lambda number, sql=sql: sql.format(number=number)):  # type: ignore[misc]
                    state = prove(cluster, name)
            assert (state["state"], state["reason"]) == ("DIFFERENT", None)
            assert sorted(key["id"] for _, key in get_keys(state, "missing")) == missing
            keys = [key for table, key in get_keys(state, "unexpected") if table == "public.people"]
            assert "no key" in keys
            assert sorted(key["id"] for key in keys if key != "no key") == unexpected
        database.ask("UPDATE people SET name = name WHERE id IN (3, 7, 8, 10001)")
        database.ask("INSERT INTO people VALUES (4, 'again')")
        state = prove(cluster, name)
        assert get_keys(state, "missing") == []
        assert get_keys(state, "unexpected") == [("public.people", "no key")]


@pytest.mark.slow
def test_user_who_may_only_read_suffices_while_rows_change(
    cluster: ProcessCluster, database: PostgreSQL
) -> None:
    database.ask(
        "CREATE TABLE members (id int PRIMARY KEY, name text);"  # noqa: S608
        "INSERT INTO members SELECT n, 'name ' || n FROM generate_series(1, 200) n;"
        f"CREATE ROLE reader LOGIN REPLICATION PASSWORD '{PASSWORD}';"
        "GRANT SELECT ON members TO reader; CREATE PUBLICATION p_reader FOR TABLE members"
    )
    settings = {
        "database.user": "reader",
        "publication.name": "p_reader",
        "publication.autocreate.mode": "disabled",
    }
    with captured(cluster, database, "members", 200, settings) as name:
        assert prove(cluster, name)["state"] == "PROVED"
        topic = f"{name}.public.members"

        def change_rows(number: int) -> str:
            row = number % 50 + 100
            return (
                f"UPDATE members SET name = 'v{number}' WHERE id BETWEEN {row} AND {row + 5};"  # noqa: S608
                f"DELETE FROM members WHERE id = {row}; INSERT INTO members VALUES ({row}, 'again')"
            )

        with changes(database, change_rows):
            for _ in range(3):
                state = prove(cluster, name)
                assert state["state"] != "DIFFERENT", state
            record = next(each for each in cluster.records(topic) if b'"id":7}' in (each.key or b""))
            cluster.write(topic, None, key=record.key)
            state = prove(cluster, name)
            assert (state["state"], get_keys(state, "missing")) == (
                "DIFFERENT",
                [("public.members", {"id": 7})],
            )
            assert get_keys(state, "unexpected") == []


def wait_for_commit(cluster: ProcessCluster, sink: str, topic: str) -> None:
    """Wait until a sink has committed the offset after the last record of a topic with one partition."""
    worker, count = cluster.alive[0], len(cluster.records(topic))

    def has_committed() -> bool:
        offsets = worker.get(f"/connectors/{sink}/offsets").body["offsets"]
        return bool(offsets) and bool(offsets[0]["offset"]["kafka_offset"] == count)

    worker.wait_until(f"{sink} had committed all records", has_committed)


def test_table_of_the_jdbc_sink_is_proved_after_a_kill_and_damaged_rows_are_located(
    cluster: ProcessCluster, database: PostgreSQL
) -> None:
    database.ask(TABLE_SQL.replace("kinds", "sent"))
    insert_rows(database, "sent", 1000)
    with captured(cluster, database, "sent", 903) as name:
        topic, sink = f"{name}.public.sent", f"{name}-sink"
        cluster.create(
            sink,
            sink_config(database, topic, "received") | {"consumer.override.session.timeout.ms": "6000"},
        )
        wait_for_commit(cluster, sink, topic)
        plugin_jvm(cluster.alive[0]).kill()
        database.ask(CHANGES_SQL.replace("kinds", "sent"))
        wait_for_records(cluster, topic, 907)  # an update, an insertion, and a deletion with its tombstone
        wait_for_commit(cluster, sink, topic)
        state = prove(cluster, sink)
        assert (state["state"], state["reason"]) == ("PROVED", None), state
        assert (state["result"]["expected_rows"], state["result"]["stored_rows"]) == (903, 903)
        database.ask(
            "UPDATE received SET amount = amount + 1 WHERE id = 100; DELETE FROM received WHERE id = 3;"
            "INSERT INTO received (id) VALUES (7)"
        )
        state = prove(cluster, sink)
        assert state["state"] == "DIFFERENT", state
        result = state["result"]
        assert (result["missing"]["rows"], result["unexpected"]["rows"]) == (2, 2)
        keys = [
            json.loads(cluster.records(topic)[span["first"]].key or b"")["payload"]["id"]
            for span in result["missing"]["offsets"]
        ]
        assert sorted(keys) == [3, 100]
        cluster.delete(sink)
