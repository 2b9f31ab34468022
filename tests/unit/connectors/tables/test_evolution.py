"""Tests for changes of a table's schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraal.connectors.tables.evolution import SchemaMismatch, apply_policy, evolve, unify

D = pa.decimal128
NESTED = pa.struct([("a", pa.int32())])
WIDER_NESTED = pa.struct([("a", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("stored", "new", "result"),
    [
        (pa.int32(), pa.int32(), pa.int32()),
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.float64(), pa.float32(), pa.float64()),
        (D(10, 2), D(12, 2), D(12, 2)),
        (D(12, 2), D(10, 2), D(12, 2)),
        (D(10, 2), D(9, 0), D(11, 2)),
        (NESTED, WIDER_NESTED, WIDER_NESTED),
        (WIDER_NESTED, NESTED, WIDER_NESTED),
        (pa.list_(NESTED), pa.list_(WIDER_NESTED), pa.list_(WIDER_NESTED)),
        (
            pa.map_(pa.string(), pa.int32()),
            pa.map_(pa.string(), pa.int64()),
            pa.map_(pa.string(), pa.int64()),
        ),
    ],
)
def test_column_becomes_wide_enough(stored: pa.DataType, new: pa.DataType, result: pa.DataType) -> None:
    evolution = evolve(pa.schema([("c", stored)]), pa.schema([("c", new)]))
    assert evolution.schema == pa.schema([("c", result)])
    assert bool(evolution.changes) == (stored != result)


@pytest.mark.parametrize(
    ("stored", "new"),
    [
        (pa.int32(), pa.string()),
        (pa.string(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (D(10, 2), D(10, 3)),
        (D(38, 2), D(38, 0)),
        (NESTED, pa.list_(NESTED)),
    ],
)
def test_other_type_is_refused(stored: pa.DataType, new: pa.DataType) -> None:
    with pytest.raises(SchemaMismatch) as error:
        evolve(pa.schema([("c", stored)]), pa.schema([("c", new)]))
    assert str(error.value) == f"column c has type {stored}, which cannot store or become {new}"


def test_new_column_may_be_null_and_missing_columns_stay() -> None:
    table = pa.schema([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.string())])
    evolution = evolve(table, pa.schema([pa.field("c", pa.int64(), nullable=False), ("a", pa.int32())]))
    assert evolution.schema == pa.schema([*table, pa.field("c", pa.int64())])
    assert [str(change) for change in evolution.changes] == ["add column c int64"]


def test_changes_name_nested_fields() -> None:
    changes = evolve(pa.schema([("c", pa.list_(NESTED))]), pa.schema([("c", pa.list_(WIDER_NESTED))])).changes
    assert [str(change) for change in changes] == [
        "widen column c.element.a from int32 to int64",
        "add column c.element.b string",
    ]


def test_policy_fail_refuses_changes_only() -> None:
    table = pa.schema([("a", pa.int32())])
    apply_policy(evolve(table, table), "fail")
    for new, message in [
        (pa.schema([("b", pa.int32())]), "the table has no column b (int32)"),
        (pa.schema([("a", pa.int64())]), "column a has type int32, which cannot store or become int64"),
    ]:
        apply_policy(evolve(table, new), "evolve")
        with pytest.raises(SchemaMismatch) as error:
            apply_policy(evolve(table, new), "fail")
        assert str(error.value) == message


def test_unified_type_does_not_depend_on_the_order() -> None:
    assert unify([pa.int32(), pa.int64()]) == unify([pa.int64(), pa.int32()]) == pa.int64()
    assert unify([D(10, 2), D(9, 0)]) == unify([D(9, 0), D(10, 2)]) == D(11, 2)
