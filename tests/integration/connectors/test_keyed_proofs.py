"""Tests for proofs of sources with keys on real Spark and PostgreSQL, with change events that the tests write."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient

from kraal.config.connector.converters import ConverterSettings
from kraal.connectors.debezium.capture import JSON_CONVERTER
from kraal.connectors.debezium.postgresql import open_postgresql
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import ProofRequest, SourceProofInput, TaskSpec
from kraal.engine.proof import delivery
from kraal.engine.proof.keyed import MAX_ROUNDS
from kraal.plugins.api import NotComparable
from kraal.proof.differences import Differences, RowKey
from kraal.proof.result import ProofResult, Verdict
from scripts.harness.postgresql import PASSWORD, USER, PostgreSQL, postgresql
from tests.fakes.spark.stage import TaskHarness

FAR_LSN = 1 << 60
PLACEHOLDER = "__debezium_unavailable_value"
ROWS = 1500


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    with postgresql() as server:
        yield server


@dataclass
class Capture:
    """A table whose change events the test writes."""

    harness: TaskHarness
    database: PostgreSQL
    table: str
    settings: Mapping[str, str] = field(default_factory=dict)
    prefix: str = field(default_factory=lambda: f"p-{uuid.uuid4().hex[:8]}")

    @property
    def topic(self) -> str:
        """The topic of the table."""
        return f"{self.prefix}.public.{self.table}"

    def write(self, *events: tuple[Any, Any], partition: int = 0) -> None:
        """Write the state of a key for each pair of a key and a row; None for a tombstone."""
        producer = ck.Producer({"bootstrap.servers": self.harness.address, "linger.ms": 5})
        for key, row in events:
            value = None if row is None else json.dumps({"before": None, "after": row, "op": "c"})
            producer.produce(self.topic, value, key=json.dumps(key), partition=partition)
        assert producer.flush(30) == 0

    def prove(self, read_offsets: Callable[[], Any] | None = None) -> ProofResult:
        """Compare the table with its topic; by default, all changes have been delivered."""
        connector = {
            "name": "c",
            "connector.class": "Debezium",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.database.port),
            "database.user": USER,
            "database.password": PASSWORD,
            "database.dbname": self.database.database,
            "topic.prefix": self.prefix,
            "table.include.list": f"public.{self.table}",
            **self.settings,
        }
        json_converter = ConverterSettings(JSON_CONVERTER, {"schemas.enable": "false"})
        source = open_postgresql(connector, json_converter, json_converter, Path("no plugin"))
        spec = TaskSpec(task=TaskId(ConnectorName("c"), 0), task_config=connector, connector_config=connector)
        source_input = SourceProofInput(
            task_configs=[connector], read_offsets=read_offsets or (lambda: self.make_offsets(FAR_LSN))
        )
        return self.harness.engine.open_keyed_proof(spec, source).run(ProofRequest(source=source_input))

    def make_offsets(self, lsn: int) -> dict[SourcePartition, Offset]:
        """Return the stored offsets."""
        return {SourcePartition.of({"server": self.prefix}): {"lsn": lsn}}

    def key(self, **columns: Any) -> RowKey:
        """Return the key of a row."""
        return RowKey(table=f"public.{self.table}", key=json.dumps(columns, separators=(",", ":")))


@pytest.fixture
def items(harness: TaskHarness, database: PostgreSQL) -> Capture:
    """Return a delivered table with `ROWS` rows in two partitions."""
    table = f"items_{uuid.uuid4().hex[:8]}"
    database.ask(
        f"CREATE TABLE {table} (id int PRIMARY KEY, name text, raw bytea);"  # noqa: S608
        f"INSERT INTO {table} SELECT n, 'name ' || n, '\\x00ff' FROM generate_series(1, {ROWS}) n"
    )
    capture = Capture(harness, database, table)
    harness.create(capture.topic, partitions=2)
    for partition in (0, 1):
        capture.write(
            *(({"id": n}, make_row(n)) for n in range(1, ROWS + 1) if n % 2 == partition), partition=partition
        )
    return capture


def make_row(number: int, **changes: Any) -> dict[str, Any]:
    return {"id": number, "name": f"name {number}", "raw": "AP8=", **changes}


def test_last_state_of_each_key_is_compared(items: Capture) -> None:
    items.write(({"id": 2}, make_row(2, name="old")), ({"id": 2}, make_row(2)), ({"id": 0}, None))
    result = items.prove()
    assert (result.verdict, result.expected_count, result.stored_count) == (Verdict.PROVED, ROWS, ROWS)
    assert (result.is_partial, result.not_compared) == (False, ())
    assert sorted(result.ranges.values()) == [(0, ROWS // 2), (0, ROWS // 2 + 3)]


def test_differences_have_the_keys_of_the_rows(items: Capture) -> None:
    items.database.ask(f"DELETE FROM {items.table} WHERE id = 4")  # noqa: S608
    items.write(({"id": 2}, make_row(2, name=None)), ({"id": 6}, None), ({"id": "x"}, make_row(8)))
    garbage = RowKey(table=f"public.{items.table}", key='{"id": "x"}')
    assert items.prove().differences == Differences(
        missing_count=2,
        missing_keys=(items.key(id=2), items.key(id=6)),
        unexpected_count=3,
        unexpected_keys=(garbage, items.key(id=2), items.key(id=4)),
    )


def test_more_differences_than_can_be_selected_by_key_are_counted(items: Capture) -> None:
    items.database.ask(f"UPDATE {items.table} SET raw = NULL WHERE id <= 1200")  # noqa: S608
    differences = items.prove().differences
    assert (differences.missing_count, differences.unexpected_count) == (1200, 1200)
    assert len(differences.missing_keys) == 1000


def test_placeholders_of_unchanged_values_are_not_compared(items: Capture) -> None:
    raw = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    items.write(({"id": 2}, make_row(2, name=PLACEHOLDER)), ({"id": 4}, make_row(4, raw=raw)))
    assert items.prove().verdict is Verdict.PROVED
    items.write(({"id": 6}, make_row(6, name="other", raw=raw)))
    assert items.prove().differences.missing_keys == (items.key(id=6),)


def test_changes_that_are_delivered_during_the_proof_are_no_differences(items: Capture) -> None:
    items.database.ask(
        f"UPDATE {items.table} SET name = 'new' WHERE id = 2; DELETE FROM {items.table} WHERE id = 4;"  # noqa: S608
        f"INSERT INTO {items.table} VALUES (0, 'name 0', '\\x00ff')"
    )
    calls = 0

    def deliver() -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            items.write(({"id": 2}, make_row(2, name="new")), ({"id": 4}, None), ({"id": 0}, make_row(0)))
        return items.make_offsets(0 if calls <= 3 else FAR_LSN)

    assert items.prove(deliver).verdict is Verdict.PROVED
    assert calls == 4


def test_row_that_changes_all_the_time_is_not_compared(items: Capture) -> None:
    items.write(({"id": 2}, make_row(2, name="first")))
    calls = 0

    def change() -> Any:
        nonlocal calls
        calls += 1
        items.write(({"id": 2}, make_row(2, name=f"change {calls}")))
        return items.make_offsets(FAR_LSN)

    with pytest.raises(
        NotComparable, match=r'changed during each of 5 comparisons: .* \{"id":2\}; retry later'
    ):
        items.prove(change)
    assert calls == 1 + MAX_ROUNDS
    items.write(({"id": 4}, None))
    assert items.prove(change).differences.missing_keys == (items.key(id=4),)


def test_difference_without_delivered_changes_is_undecided(
    items: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "TIMEOUT_S", 0.0)
    items.write(({"id": 2}, None))
    with pytest.raises(
        NotComparable, match=r"1 rows differ .* LSN 5, has not reached LSN \d+ of the database"
    ):
        items.prove(lambda: items.make_offsets(5))


def test_key_of_several_columns_and_table_without_other_columns(
    harness: TaskHarness, database: PostgreSQL
) -> None:
    table = f"pairs_{uuid.uuid4().hex[:8]}"
    database.ask(
        f'CREATE TABLE {table} ("No." bigint, "O\'N" text, PRIMARY KEY ("O\'N", "No."));'  # noqa: S608
        f"INSERT INTO {table} VALUES (1, 'a\"b'), (2, E'c\\\\''d'), (3, 'ü')"
    )
    pairs = Capture(harness, database, table)
    keys = [{"O'N": name, "No.": number} for number, name in ((1, 'a"b'), (2, "c\\'d"), (3, "ü"))]
    pairs.write(*((key, key) for key in keys))
    assert pairs.prove().verdict is Verdict.PROVED
    database.ask(f'DELETE FROM {table} WHERE "No." = 3')  # noqa: S608
    pairs.write((keys[1], None))
    assert pairs.prove().differences == Differences(
        missing_count=1,
        missing_keys=(pairs.key(**keys[1]),),
        unexpected_count=1,
        unexpected_keys=(
            RowKey(
                table=f"public.{table}", key=json.dumps(keys[2], separators=(",", ":"), ensure_ascii=False)
            ),
        ),
    )


def test_rows_of_a_table_without_topic_are_missing(harness: TaskHarness, database: PostgreSQL) -> None:
    table = f"new_{uuid.uuid4().hex[:8]}"
    database.ask(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    capture = Capture(harness, database, table)
    assert capture.prove().verdict is Verdict.PROVED
    database.ask(f"INSERT INTO {table} VALUES (7)")  # noqa: S608
    assert capture.prove().differences.missing_keys == (capture.key(id=7),)
    with pytest.raises(NotComparable, match="captures no table that can be compared"):
        Capture(harness, database, "none").prove()


def test_topic_without_its_first_records_is_not_compared(items: Capture) -> None:
    admin = AdminClient({"bootstrap.servers": items.harness.address})
    (deleted,) = admin.delete_records([ck.TopicPartition(items.topic, 0, 5)]).values()
    deleted.result(20)
    with pytest.raises(NotComparable, match=r"-0 before offset 5 were deleted; .*cleanup\.policy=compact"):
        items.prove()
