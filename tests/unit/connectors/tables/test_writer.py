"""Tests for commits of batches to real tables of both formats."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import ProgrammingError

from kraal.connectors.tables.iceberg import IcebergTable, make_catalog
from kraal.connectors.tables.positions import TableMoved
from kraal.connectors.tables.table import Conflict
from kraal.plugins.api import DataException, PartitionsLost, RetriableError, TopicPartition
from tests.fakes.tables.records import (
    TOPIC,
    Node,
    Record,
    change_event,
    encode_decimal,
    envelope,
    event,
    field,
    row,
    struct,
    tombstone,
    truncation,
)
from tests.unit.connectors.tables.conftest import PARTITION, Lake, list_files

PLACEHOLDER = "__debezium_unavailable_value"
OTHER = TopicPartition(TOPIC, 1)
WITH_NOTE = struct(field("id", "int32"), field("name"), field("note", "double"))


def test_first_commit_creates_the_table_with_its_offsets(lake: Lake) -> None:
    assert lake.open().load([PARTITION]).handle is None
    lake.writer().write(row(1, "a"), row(2, "b"), row(1, "c"))
    assert lake.names() == {1: "c", 2: "b"}
    assert lake.open().load([]).schema == pa.schema([("id", pa.int32()), ("name", pa.string())])
    assert (lake.offset(), lake.offset(OTHER), lake.offset(connector="other")) == (3, None, None)


def test_append_keeps_all_records(lake: Lake) -> None:
    writer = lake.writer("append")
    writer.write(row(1, "a"), row(1, "a"))
    writer.write(row(1, "b"), tombstone(1), start=2)
    assert sorted(lake.read()["name"].to_pylist()) == ["a", "a", "b"]
    assert lake.offset() == 4


def test_upsert_replaces_inserts_and_deletes_rows(lake: Lake) -> None:
    writer = lake.writer()
    writer.write(*(row(number, "old") for number in range(6)))
    writer.write(row(1, "new"), tombstone(2), row(9, "new"), tombstone(77), start=6)
    assert lake.names() == {0: "old", 1: "new", 3: "old", 4: "old", 5: "old", 9: "new"}
    writer.write(tombstone(0), start=10)
    assert 0 not in lake.names()
    assert lake.offset() == 11


def test_batch_that_changes_nothing_advances_the_offset(lake: Lake) -> None:
    writer = lake.writer()
    writer.write(row(1, "a"))
    writer.write(tombstone(5), start=1)
    assert (lake.names(), lake.offset()) == ({1: "a"}, 2)


def test_table_is_created_with_its_first_row(lake: Lake) -> None:
    writer = lake.writer(evolution="fail")
    writer.write(tombstone(5))
    assert lake.open().load([]).handle is None
    writer.write(row(1, "a"), start=1)
    assert (lake.names(), lake.offset()) == ({1: "a"}, 2)


def test_key_may_have_several_columns_of_several_types(lake: Lake) -> None:
    decimal = field("amount", "bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"})
    moment = field("at", "int64", "io.debezium.time.MicroTimestamp")
    key, value = (
        struct(decimal, moment, field("Name of it")),
        struct(decimal, moment, field("Name of it"), field("v")),
    )

    def record(number: int, text: str | None) -> Record:
        fields = {"amount": encode_decimal(number), "at": number, "Name of it": "x'`\""}
        return envelope(key, fields), None if text is None else envelope(value, {**fields, "v": text})

    writer = lake.writer()
    writer.write(*(record(number, "old") for number in (1, 2, 3)))
    writer.write(record(1, "new"), record(2, None), record(300, "new"), start=3)
    assert sorted(lake.read()["v"].to_pylist()) == ["new", "new", "old"]


def test_many_rows_are_written_to_several_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    if lake.kind != "iceberg":
        return  # deltalake streams the rows of the files itself
    writer = lake.writer()
    for number in range(3):
        writer.write(row(10 * number, "a"), row(10 * number + 1, "a"), start=2 * number)
    monkeypatch.setattr("kraal.connectors.tables.iceberg_files.MAX_PENDING_BYTES", 1)
    writer.write(row(0, "b"), row(11, "b"), row(20, "b"), start=6)
    assert lake.names() == {0: "b", 1: "a", 10: "a", 11: "b", 20: "b", 21: "a"}
    assert len(list_files(lake)) == 4
    monkeypatch.undo()
    writer.write(row(1, "c"), row(10, "c"), row(21, "c"), start=9)
    assert lake.names() == {0: "b", 1: "c", 10: "c", 11: "b", 20: "b", 21: "c"}
    assert len(list_files(lake)) == 2


@pytest.mark.parametrize("count", [3, 300])
def test_only_files_with_changed_keys_are_rewritten(lake: Lake, count: int) -> None:
    writer = lake.writer()
    writer.write(*(row(number, "a") for number in range(1000, 1000 + count)))
    files = list_files(lake)
    writer.write(*(row(number, "b") for number in range(count)), start=count)
    assert files < list_files(lake)
    writer.write(row(0, "c"), start=2 * count)
    assert files < list_files(lake)


def test_truncation_removes_all_earlier_rows(lake: Lake) -> None:
    writer = lake.writer("cdc")
    writer.write(event("c", 1, "a"), event("c", 2, "b"))
    writer.write(event("c", 3, "c"), truncation(), event("c", 4, "d"), start=2)
    assert lake.names() == {4: "d"}
    writer.write(truncation(), start=5)
    assert (lake.names(), lake.offset()) == ({}, 6)


def test_unavailable_value_keeps_the_value_of_the_table(lake: Lake) -> None:
    schema = change_event(struct(field("id", "int32"), field("name"), field("note")))
    writer = lake.writer("cdc")
    writer.write(event("c", 1, "long", schema, note="a"), event("c", 2, "short", schema, note="a"))
    writer.write(
        event("u", 1, PLACEHOLDER, schema, note="b"), event("u", 2, "changed", schema, note="b"), start=2
    )
    assert lake.names() == {1: "long", 2: "changed"}
    assert set(lake.read()["note"].to_pylist()) == {"b"}


def test_delete_may_mark_the_row(lake: Lake) -> None:
    schema = change_event(WITH_NOTE)
    writer = lake.writer("cdc", marks_deletes=True)
    writer.write(event("d", 7))
    assert lake.open().load([]).handle is None
    writer.write(event("c", 1, "a", schema, note=1.5), event("c", 2, "b", schema, note=2.5), start=1)
    writer.write(event("d", 1), tombstone(1), event("d", 77), event("d", 2), event("c", 2, "c"), start=3)
    rows = sorted(lake.read().to_pylist(), key=lambda item: item["id"])
    assert rows == [
        {"id": 1, "name": "a", "note": 1.5, "__deleted": True},
        {"id": 2, "name": "c", "note": None, "__deleted": False},
    ]
    assert lake.offset() == 8


def test_mark_of_deletes_is_added_to_a_table(lake: Lake) -> None:
    lake.writer().write(row(1, "a"), row(2, "b"))
    with pytest.raises(DataException, match=r"has no column __deleted \(bool\) \(schema.evolution=fail\)"):
        lake.writer(evolution="fail", marks_deletes=True).write(tombstone(1), start=2)
    lake.writer(marks_deletes=True).write(tombstone(1), start=2)
    rows = {item["id"]: (item["name"], item["__deleted"]) for item in lake.read().to_pylist()}
    assert rows == {1: ("a", True), 2: ("b", None)}


def test_unavailable_array_keeps_the_value_of_the_table(lake: Lake) -> None:
    elements: dict[str, Node] = {
        "words": {"type": "string", "optional": True},
        "numbers": {"type": "int32", "optional": True},
    }
    arrays = [field(name, "array", items=element) for name, element in elements.items()]
    schema = change_event(struct(field("id", "int32"), field("name"), *arrays))
    octets = list(PLACEHOLDER.encode())
    kept: dict[str, list[Any]] = {"words": ["x", None], "numbers": [1, 2]}
    similar: dict[str, list[Any]] = {"words": [PLACEHOLDER, "x"], "numbers": [*octets[:-1], 0]}
    writer = lake.writer("cdc")
    writer.write(event("c", 1, "a", schema, **kept), event("c", 2, "a", schema, words=[], numbers=None))
    writer.write(
        event("u", 1, "b", schema, words=[PLACEHOLDER], numbers=octets),
        event("u", 2, "b", schema, **similar),
        start=2,
    )
    rows = sorted(lake.read().to_pylist(), key=lambda item: int(item["id"]))
    assert rows == [{"id": 1, "name": "b", **kept}, {"id": 2, "name": "b", **similar}]


# --- exactly once -----------------------------------------------------------------------------------------


def test_new_task_continues_at_the_offset_of_the_table(lake: Lake) -> None:
    lake.writer("append").write(row(1, "a"), row(2, "b"))
    writer = lake.writer("append")
    assert writer.writer.read_offsets([PARTITION, OTHER]) == {PARTITION: 2}
    writer.write(row(1, "a"), row(2, "b"), row(3, "c"))
    assert sorted(lake.names()) == [1, 2, 3]


def test_previous_owner_writes_nothing_twice(lake: Lake) -> None:
    old, new = lake.writer("append"), lake.writer("append")
    records = [row(number, "x") for number in range(5)]
    new.write(*records[:3])
    old.write(*records[:2])
    old.write(*records, start=0)
    new.write(*records[3:], start=3)
    assert sorted(lake.names()) == [0, 1, 2, 3, 4]
    assert lake.offset() == 5


def test_tasks_of_other_partitions_commit_concurrently(lake: Lake) -> None:
    first, second = lake.writer("append"), lake.writer("append")
    commits = 0

    def commit_other() -> None:
        nonlocal commits
        commits += 1
        if commits == 1:
            second.write(row(2, "b"), partition=1)

    first.write(row(1, "a"), check=commit_other)
    assert commits == 2, "the first attempt was in conflict"
    assert lake.names() == {1: "a", 2: "b"}
    assert (lake.offset(), lake.offset(OTHER)) == (1, 1)


def test_owner_that_commits_between_load_and_commit_wins(lake: Lake) -> None:
    first, second = lake.writer("append"), lake.writer("append")
    first.write(row(0, "x"))
    records = row(1, "a"), row(2, "b")
    second.write(*records, start=1, check=lambda: first.write(*records, start=1))
    assert sorted(lake.names()) == [0, 1, 2]
    assert lake.offset() == 3


def test_endless_conflicts_are_retried_later(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = lake.writer()

    def conflict(*arguments: Any) -> None:
        raise Conflict(str(arguments[0]))

    monkeypatch.setattr(writer.writer._table, "commit", conflict)
    with pytest.raises(RetriableError, match="8 commits have failed"):
        writer.write(row(1, "a"))


@pytest.mark.parametrize(
    "properties",
    [
        {"type": "rest", "uri": "http://127.0.0.1:1"},
        {"type": "sql", "uri": "sqlite:////proc/catalog.db", "warehouse": "file:///proc"},
    ],
)
def test_catalog_that_is_not_available_is_retried(properties: dict[str, str]) -> None:
    table = IcebergTable(partial(make_catalog, "iceberg", properties), "shop.orders", "sink")
    with pytest.raises(
        RetriableError, match=r"shop\.orders: the catalog or the storage is not available: .+"
    ):
        table.load([PARTITION])


@pytest.mark.parametrize(
    "original",
    [
        Exception({"C": "57P03", "M": "the database system is starting up"}),  # pg8000
        type("ServerError", (Exception,), {"sqlstate": "53300"})("too many clients"),  # psycopg
    ],
)
def test_catalog_whose_database_starts_is_retried(original: Exception) -> None:
    def open_catalog() -> None:
        raise ProgrammingError("SELECT 1", {}, original)

    with pytest.raises(RetriableError, match="the catalog or the storage is not available"):
        IcebergTable(open_catalog, "shop.orders", "sink").load([PARTITION])


def test_error_of_a_statement_is_not_retried() -> None:
    def open_catalog() -> None:
        raise ProgrammingError("SELECT 1", {}, Exception({"C": "42501", "M": "permission denied"}))

    with pytest.raises(ProgrammingError, match="permission denied"):
        IcebergTable(open_catalog, "shop.orders", "sink").load([PARTITION])


def test_tasks_that_create_a_catalog_at_the_same_time_open_it(tmp_path: Path) -> None:
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}"}
    count = 8
    together = threading.Barrier(count)

    def open_catalog() -> None:
        together.wait(30)
        make_catalog("iceberg", properties)

    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(open_catalog) for _ in range(count)]:
            future.result(30)


def test_lost_partitions_prevent_the_commit(lake: Lake) -> None:
    def lose() -> None:
        raise PartitionsLost

    with pytest.raises(PartitionsLost):
        lake.writer().write(row(1, "a"), check=lose)
    assert lake.offset() is None


def test_table_that_was_dropped_is_an_error(lake: Lake) -> None:
    writer = lake.writer()
    writer.write(row(1, "a"))
    state = lake.open().load([PARTITION])
    lake.open().set_offsets(state, {PARTITION: None})
    assert lake.offset() is None
    with pytest.raises(TableMoved, match="contains no offset"):
        writer.write(row(2, "b"), start=1)


def test_offsets_can_be_set_to_any_value(lake: Lake) -> None:
    table = lake.open()
    lake.writer("append").write(row(1, "a"), row(2, "b"))
    for offset in (1, 7, 0):
        table.set_offsets(table.load([PARTITION]), {PARTITION: offset, OTHER: 5})
        assert (lake.offset(), lake.offset(OTHER)) == (offset, 5)
    lake.writer("append").write(row(1, "a"))
    assert lake.read()["id"].to_pylist().count(1) == 2
    assert (lake.offset(), lake.offset(OTHER)) == (1, 5)


def test_offsets_outlive_other_commits_and_maintenance(lake: Lake) -> None:
    lake.writer().write(row(1, "a"))
    for _ in range(3):
        handle = lake.open().load([]).handle
        if lake.kind == "iceberg":
            handle.append(handle.scan().to_arrow()[:0])
            handle.refresh()
            handle.maintenance.expire_snapshots().by_ids(
                [s.snapshot_id for s in handle.metadata.snapshots if s != handle.current_snapshot()]
            ).commit()
        else:
            from deltalake import write_deltalake  # noqa: PLC0415 - heavy

            write_deltalake(handle, handle.to_pyarrow_table()[:0], mode="append")
            handle = lake.open().load([]).handle
            handle.create_checkpoint()
            handle.optimize.compact()
            handle.vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert lake.offset() == 1


def test_rollback_of_an_iceberg_table_rolls_back_its_offsets(lake: Lake) -> None:
    if lake.kind != "iceberg":
        return  # Delta's restore is a new version, whose offsets stay
    writer = lake.writer("append")
    writer.write(row(1, "a"))
    first = lake.open().load([]).handle.current_snapshot().snapshot_id
    writer.write(row(2, "b"), start=1)
    lake.open().load([]).handle.manage_snapshots().rollback_to_snapshot(first).commit()
    assert lake.offset() == 1
    with pytest.raises(TableMoved, match="continues at offset 1 of"):
        writer.write(row(3, "c"), start=2)


steps = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 5), st.none() | st.text("ab", max_size=2)), min_size=1),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=steps)
def test_table_equals_the_topic_despite_repeats(
    tmp_path_factory: pytest.TempPathFactory,
    lake: Lake,
    steps: list[tuple[list[tuple[int, str | None]], bool]],
) -> None:
    """A task may restart before each batch, and then repeats the previous one."""
    lake = Lake(lake.kind, tmp_path_factory.mktemp("lake"))
    expected: dict[int, str | None] = {}
    writer, start, previous = lake.writer(), 0, None  # type: Any, int, Any
    for changes, restarts in steps:
        records = [tombstone(number) if name is None else row(number, name) for number, name in changes]
        if restarts:
            writer = lake.writer()
            if previous is not None:
                writer.write(*previous[0], start=previous[1])
        writer.write(*records, start=start)
        expected |= dict(changes)
        previous, start = (records, start), start + len(records)
    names = {number: name for number, name in expected.items() if name is not None}
    assert lake.names() == names
    assert lake.offset() == start or not names, "a table is created with its first row"
