"""Tests for changes of a table's schema."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraal.connectors.tables.evolution import SchemaChange, SchemaMismatch, merge_types

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
    changes: list[SchemaChange] = []
    assert merge_types("c", stored, new, changes) == result
    assert bool(changes) == (stored != result)


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
        merge_types("c", stored, new, [])
    assert str(error.value) == f"column c has type {stored}, which cannot store or become {new}"


def test_changes_name_nested_fields() -> None:
    changes: list[SchemaChange] = []
    merge_types("c", pa.list_(NESTED), pa.list_(WIDER_NESTED), changes)
    assert [str(change) for change in changes] == [
        "widen column c.element.a from int32 to int64",
        "add column c.element.b string",
    ]


def test_inferred_whole_numbers_fit_into_fractional_ones() -> None:
    changes: list[SchemaChange] = []
    stored, new = pa.list_(pa.float64()), pa.list_(pa.int64())
    assert merge_types("c", stored, new, changes, is_inferred=True) == stored
    assert changes == []
    with pytest.raises(SchemaMismatch):
        merge_types("c", new, stored, changes, is_inferred=True)
