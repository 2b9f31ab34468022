"""Tests for the changes that records make, in each `write.mode`."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.connectors.tables.changes import BatchChanges, make_changes
from kraal.connectors.tables.envelopes import read_envelopes
from kraal.connectors.tables.fitting import Target
from kraal.connectors.tables.settings import APPEND, CDC, UPSERT, ChangeSettings
from tests.fakes.tables.records import (
    KEY,
    ROW,
    Record,
    change_event,
    envelope,
    event,
    field,
    row,
    struct,
    tombstone,
    truncation,
)

EVOLVING = Target()
PLACEHOLDER = "__debezium_unavailable_value"


def change(
    records: list[Record], mode: str, *id_columns: str, target: Target = EVOLVING, **options: Any
) -> BatchChanges:
    keys, values = (read_envelopes(pa.array(part, pa.string())) for part in zip(*records, strict=True))
    partitions = pa.array(["t-0"] * len(records))
    settings = ChangeSettings(mode=mode, id_columns=id_columns, **options)
    return make_changes(keys, values, len(records), partitions, settings, target)


def by_id(result: BatchChanges) -> dict[int, Any]:
    return {item["id"]: item["name"] for item in result.changes.rows.to_pylist()}


def deleted(result: BatchChanges) -> list[Any]:
    assert result.changes.deletes is not None
    return sorted(result.changes.deletes["id"].to_pylist())


def test_append_adds_every_value_in_order_and_no_tombstone() -> None:
    result = change([row(2, "b"), row(1, "a"), tombstone(2), row(2, "b")], APPEND)
    assert [tuple(item.values()) for item in result.changes.rows.to_pylist()] == [
        (2, "b"),
        (1, "a"),
        (2, "b"),
    ]
    assert (result.changes.key, result.changes.deletes, result.errors) == ((), None, {})
    assert result.changes.is_append


changes_of_keys = st.lists(st.tuples(st.integers(0, 4), st.none() | st.text(max_size=3)), min_size=1)


@given(changes_of_keys, st.booleans())
def test_last_change_of_a_key_wins(changes: list[tuple[int, str | None]], is_cdc: bool) -> None:  # noqa: FBT001
    expected: dict[int, str | None] = dict(changes)
    if is_cdc:
        records = [event("d", n) if name is None else event("u", n, name) for n, name in changes]
    else:
        records = [tombstone(n) if name is None else row(n, name) for n, name in changes]
    result = change(records, CDC if is_cdc else UPSERT)
    assert by_id(result) == {n: name for n, name in expected.items() if name is not None}
    assert deleted(result) == sorted(n for n, name in expected.items() if name is None)
    assert result.changes.key == ("id",)


def test_key_that_the_value_lacks_becomes_a_column() -> None:
    value = envelope(struct(field("name")), {"name": "a"})
    result = change([(envelope(KEY, {"id": 7}), value)], UPSERT)
    assert result.changes.rows.to_pylist() == [{"id": 7, "name": "a"}]


def test_id_columns_replace_the_key() -> None:
    key = envelope({"type": "int32"}, 1)
    records = [row(1, "a"), row(2, "a"), (key, row(1, "c")[1]), (None, row(5, "d")[1])]
    result = change(records, UPSERT, "name")
    assert sorted(by_id(result).items()) == [(1, "c"), (2, "a"), (5, "d")]
    assert result.changes.key == ("name",)


def test_key_without_fields_deletes_by_its_only_id_column() -> None:
    key = envelope({"type": "int32"}, 1)
    assert deleted(change([(key, row(1, "a")[1]), (key, None)], UPSERT, "id")) == [1]


@pytest.mark.parametrize("mode", [UPSERT, CDC])
def test_record_without_a_key_is_an_error(mode: str) -> None:
    records = [
        row(1, "a"),
        (None, envelope(struct(field("name")), {"name": "x"})),
        row(None, "c"),
        (None, None),
    ]
    result = change(records, mode)
    assert {n: str(error) for n, error in result.errors.items()} == dict.fromkeys(
        (1, 2, 3), "the column id of its key is null or missing"
    )
    assert by_id(result) == {1: "a"}


def test_key_without_columns_is_an_error_that_names_the_remedy() -> None:
    result = change([(envelope({"type": "int32"}, 1), row(1, "a")[1])], UPSERT)
    assert "set id.columns" in str(result.errors[0])
    assert result.changes.rows.num_rows == 0


def test_unknown_id_column_is_an_error() -> None:
    assert (
        str(change([row(1, "a")], UPSERT, "nope").errors[0])
        == "the column nope of its key is null or missing"
    )


def test_value_without_fields_is_an_error() -> None:
    result = change([(None, envelope({"type": "int32"}, 1)), row(1, "a")], APPEND)
    assert {n: str(error) for n, error in result.errors.items()} == {0: "its value has no fields"}
    assert by_id(result) == {1: "a"}


def test_invalid_record_does_not_prevent_the_others() -> None:
    result = change([row(1, "a"), ("garbage", row(2, "b")[1]), (row(3, "c")[0], "garbage")], UPSERT)
    assert result.errors.keys() == {1, 2}
    assert by_id(result) == {1: "a"}
    assert deleted(result) == []


def test_schemas_of_a_batch_are_unified() -> None:
    wider = struct(field("id", "int64"), field("name"), field("note"))
    wide_key = envelope(struct(field("id", "int64")), {"id": 2**40})
    records = [row(1, "a"), (wide_key, row(2**40, "b", wider, note="n")[1]), row(1, "c")]
    result = change(records, UPSERT)
    assert sorted(result.changes.rows.to_pylist(), key=lambda r: r["id"]) == [
        {"id": 1, "name": "c", "note": None},
        {"id": 2**40, "name": "b", "note": "n"},
    ]


def test_record_whose_type_contradicts_an_earlier_record_is_an_error() -> None:
    other = struct(field("id", "int32"), field("name", "int32"))
    result = change(
        [row(1, "a"), (row(2, "b")[0], envelope(other, {"id": 2, "name": 5})), row(3, "c")], APPEND
    )
    assert {n: str(error) for n, error in result.errors.items()} == {
        1: "column name has type string, which cannot store or become int32"
    }
    assert by_id(result) == {1: "a", 3: "c"}


# --- Debezium ---------------------------------------------------------------------------------------------


def test_change_events_of_all_operations() -> None:
    records = [
        event("r", 1, "a"),
        event("c", 2, "b"),
        event("u", 1, "c"),
        event("d", 2),
        tombstone(2),
        event("m", 3),
    ]
    result = change(records, CDC)
    assert by_id(result) == {1: "c"}
    assert deleted(result) == [2]
    assert (result.errors, result.changes.truncates, result.changes.unavailable) == ({}, False, {})


def test_changed_primary_key_is_a_delete_and_an_insert() -> None:
    result = change([event("d", 1), tombstone(1), event("c", 9, "a")], CDC)
    assert (by_id(result), deleted(result)) == ({9: "a"}, [1])


def test_truncation_drops_earlier_changes() -> None:
    result = change([event("c", 1, "a"), event("d", 4), truncation(), event("c", 2, "b")], CDC)
    assert (by_id(result), deleted(result)) == ({2: "b"}, [])
    assert result.changes.truncates
    assert not result.changes.is_append


def test_unwrapped_events_delete_by_their_marker() -> None:
    schema = struct(field("id", "int32"), field("name"), field("__deleted"))
    records = [row(1, "a", schema, __deleted="false"), row(2, "b", schema, __deleted="true"), tombstone(3)]
    result = change(records, CDC)
    assert result.changes.rows.column_names == ["id", "name"]
    assert (by_id(result), deleted(result)) == ({1: "a"}, [2, 3])


def test_unavailable_value_is_taken_from_the_latest_change_that_has_it() -> None:
    schema = change_event(struct(field("id", "int32"), field("name"), field("data", "bytes")))

    def update(number: int, name: str, data: str) -> Record:
        return event("u", number, name, schema, data=data)

    missing = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    result = change(
        [
            update(1, "long", "AQ=="),
            update(2, PLACEHOLDER, "Ag=="),
            update(1, PLACEHOLDER, "Aw=="),
            update(1, PLACEHOLDER, missing),
            update(2, PLACEHOLDER, missing),
        ],
        CDC,
    )
    rows = sorted(result.changes.rows.to_pylist(), key=lambda r: r["id"])
    assert rows == [{"id": 1, "name": "long", "data": b"\x03"}, {"id": 2, "name": None, "data": b"\x02"}]
    masks = {name: mask.to_pylist() for name, mask in result.changes.unavailable.items()}
    ids = result.changes.rows["id"].to_pylist()
    assert masks == {"name": [number == 2 for number in ids]}


def test_rows_keep_the_schema_of_the_source() -> None:
    result = change([event("c", 1, "a")], CDC)
    assert result.changes.rows.schema == pa.schema([("id", pa.int32()), ("name", pa.string())])
    assert ROW["fields"][0]["type"] == "int32"


@pytest.mark.parametrize("record", [event("c", 1), event("x", 1, "a")])
def test_change_event_without_a_row_or_with_an_unknown_operation_is_an_error(record: Record) -> None:
    key, text = record
    payload = json.loads(text or "")
    if payload["payload"]["op"] == "c":
        payload["payload"]["after"] = None
    result = change([row(2, "b"), (key, json.dumps(payload))], CDC)
    operation = payload["payload"]["op"]
    assert result.errors.keys() == {1}
    assert f"its change event with op={operation!r} has " in str(result.errors[1])
    assert by_id(result) == {2: "b"}


def test_deletes_without_a_schema_are_change_events() -> None:
    key, _ = tombstone(1)
    value = envelope(None, {"before": {"id": 1}, "after": None, "op": "d", "source": {"db": "shop"}})
    result = change([(key, value)], CDC)
    assert (result.errors, deleted(result), result.changes.rows.num_rows) == ({}, [1], 0)


# --- soft deletes -----------------------------------------------------------------------------------------

TABLE = Target(schema=pa.schema([("id", pa.int32()), ("name", pa.string()), ("__deleted", pa.bool_())]))


def marked(records: list[Record], mode: str = CDC) -> tuple[BatchChanges, dict[int, Any]]:
    """Return the changes of a batch for a table that exists, and the new rows by id."""
    result = change(records, mode, target=TABLE, marks_deletes=True)
    assert deleted(result) == []
    return result, {item.pop("id"): item for item in result.changes.rows.to_pylist()}


def test_delete_marks_the_row_and_keeps_its_values() -> None:
    result, rows = marked([event("c", 1, "a"), event("d", 2), tombstone(2)])
    assert rows == {1: {"name": "a", "__deleted": False}, 2: {"name": None, "__deleted": True}}
    is_second = [number == 2 for number in result.changes.rows["id"].to_pylist()]
    assert {name: mask.to_pylist() for name, mask in result.changes.unavailable.items()} == {
        "name": is_second
    }
    assert result.changes.updates_only is not None
    assert result.changes.updates_only.to_pylist() == is_second


def test_delete_keeps_the_values_of_the_same_batch() -> None:
    result, rows = marked([row(1, "a"), tombstone(1), row(2, "b"), tombstone(2), row(2, "c")], UPSERT)
    assert rows == {1: {"name": "a", "__deleted": True}, 2: {"name": "c", "__deleted": False}}
    assert result.changes.unavailable == {}
    assert result.changes.updates_only is not None
    assert not any(result.changes.updates_only.to_pylist())


def test_mark_of_unwrapped_events_becomes_the_mark_of_the_table() -> None:
    schema = struct(field("id", "int32"), field("name"), field("__deleted"))
    _, rows = marked([row(1, "a", schema, __deleted="false"), row(2, None, schema, __deleted="true")])
    assert rows == {1: {"name": "a", "__deleted": False}, 2: {"name": None, "__deleted": True}}
    assert marked([row(1, "a", schema, __deleted="false")], UPSERT)[1] == {
        1: {"name": "a", "__deleted": False}
    }


def test_delete_of_an_unknown_row_does_not_create_a_table() -> None:
    result = change([event("d", 1), event("c", 2, "b")], CDC, marks_deletes=True)
    assert result.changes.rows.to_pylist() == [{"id": 2, "name": "b", "__deleted": False}]
    assert result.changes.updates_only is None


def test_truncation_with_marked_deletes_is_an_error() -> None:
    result, rows = marked([event("c", 1, "a"), truncation()])
    assert "skipped.operations=t" in str(result.errors[1])
    assert rows == {1: {"name": "a", "__deleted": False}}


def test_columns_that_a_record_does_not_have_can_keep_their_values() -> None:
    shorter = (envelope(KEY, {"id": 2}), envelope(struct(field("id", "int32")), {"id": 2}))
    changes = change([row(1, None), shorter], UPSERT, keeps_missing=True).changes
    assert [item["id"] for item in changes.rows.to_pylist()] == [1, 2]
    assert {name: mask.to_pylist() for name, mask in changes.unavailable.items()} == {"name": [False, True]}
    assert change([row(1, None), shorter], UPSERT).changes.unavailable == {}


def test_values_without_a_schema_can_be_errors() -> None:
    plain = (envelope(KEY, {"id": 2}), envelope(None, {"id": 2}))
    result = change([row(1, "a"), plain, tombstone(3)], UPSERT, requires_schema=True)
    assert (by_id(result), deleted(result)) == ({1: "a"}, [3])
    assert "its value has no schema" in str(result.errors[1])
