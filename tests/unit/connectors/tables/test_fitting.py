"""Tests for records that do not fit into a table, for each `schema.evolution`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kraal.connectors.tables.envelopes import Group
from kraal.connectors.tables.evolution import SchemaMismatch
from kraal.connectors.tables.fitting import Fitting, Target

TABLE = pa.schema(
    [
        ("id", pa.int32()),
        ("nested", pa.struct([("a", pa.int32())])),
        ("tags", pa.list_(pa.struct([("x", pa.string())]))),
        ("attributes", pa.map_(pa.string(), pa.int32())),
    ]
)


def group(values: list[Any], schema: pa.Schema, *, first_row: int = 0, node: Any = None) -> Group:
    array = pa.array(values, pa.struct(list(schema)))
    rows = pa.array(range(first_row, first_row + len(values)), pa.int64())
    return Group(rows, array, {} if node is None else node)


def fit(policy: str, values: list[Any], schema: pa.Schema, **target: Any) -> tuple[list[Any], Fitting]:
    """Return the values that fit, and the columns and losses."""
    fitting = Fitting(Target(policy=policy, schema=TABLE, **target), ("id",))
    return fitting.fit(group(values, schema)).values.to_pylist(), fitting


def messages(fitting: Fitting) -> dict[int, str]:
    return {row: str(error) for row, error in fitting.errors.items()}


NEW_COLUMN = pa.schema([("id", pa.int32()), ("note", pa.string())])
VALUES = [{"id": 1, "note": None}, {"id": 2, "note": "x"}, {"id": 3, "note": None}]


def test_evolve_adds_the_column() -> None:
    values, fitting = fit("evolve", VALUES, NEW_COLUMN)
    assert values == VALUES
    assert [(row, str(change)) for row, change in fitting.changes] == [(0, "add column note string")]
    assert fitting.make_schema() == pa.schema([*TABLE, pa.field("note", pa.string())])


@pytest.mark.parametrize("policy", ["dead-letter", "fail"])
def test_only_records_with_a_value_in_an_unknown_column_are_refused(policy: str) -> None:
    values, fitting = fit(policy, VALUES, NEW_COLUMN)
    assert values == [{"id": 1}, {"id": 3}]
    assert messages(fitting) == {1: "the table has no column note (string)"}
    assert (fitting.make_schema(), fitting.ignored) == (TABLE, [])


def test_ignore_leaves_out_the_unknown_column_and_tells_where() -> None:
    values, fitting = fit("ignore", VALUES, NEW_COLUMN)
    assert values == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert [(misfit.row, str(misfit.reason)) for misfit in fitting.ignored] == [
        (1, "the table has no column note (string)")
    ]
    assert (fitting.errors, fitting.make_schema()) == ({}, TABLE)


@pytest.mark.parametrize("policy", ["evolve", "dead-letter", "fail"])
def test_record_with_another_type_is_refused(policy: str) -> None:
    schema = pa.schema([("id", pa.int32()), ("nested", pa.string())])
    values, fitting = fit(policy, [{"id": 1, "nested": "x"}, {"id": 2, "nested": None}], schema)
    assert values == [{"id": 2, "nested": None}]
    assert list(messages(fitting)) == [0]
    assert (
        "column nested has type struct<a: int32>, which cannot store or become string" in messages(fitting)[0]
    )


def test_ignore_makes_values_of_another_type_null() -> None:
    schema = pa.schema([("id", pa.int32()), ("nested", pa.string())])
    values, fitting = fit("ignore", [{"id": 1, "nested": "x"}], schema)
    assert values == [{"id": 1, "nested": None}]
    assert [misfit.reason.column for misfit in fitting.ignored] == ["nested"]


@pytest.mark.parametrize("policy", ["evolve", "ignore", "dead-letter", "fail"])
def test_key_that_does_not_fit_is_refused(policy: str) -> None:
    values, fitting = fit(policy, [{"id": "x"}], pa.schema([("id", pa.string())]))
    assert values == []
    assert messages(fitting) == {0: "column id has type int32, which cannot store or become string"}


def test_ignore_keeps_the_nested_fields_that_fit() -> None:
    schema = pa.schema(
        [
            ("nested", pa.struct([("a", pa.int32()), ("b", pa.string())])),
            ("tags", pa.list_(pa.struct([("x", pa.string()), ("y", pa.int32())]))),
            ("attributes", pa.map_(pa.string(), pa.string())),
        ]
    )
    record = {"nested": {"a": 1, "b": "x"}, "tags": [{"x": "t", "y": 1}, None], "attributes": [("k", "v")]}
    values, fitting = fit("ignore", [record, dict.fromkeys(record)], schema)
    assert values == [
        {"nested": {"a": 1}, "tags": [{"x": "t"}, None], "attributes": [("k", None)]},
        {"nested": None, "tags": None, "attributes": None},
    ]
    assert [str(misfit.reason) for misfit in fitting.ignored] == [
        "the table has no column nested.b (string)",
        "the table has no column tags.element.y (int32)",
        "column attributes.value has type int32, which cannot store or become string",
    ]


def test_dead_letter_refuses_only_records_that_would_lose_a_nested_value() -> None:
    schema = pa.schema([("tags", pa.list_(pa.struct([("x", pa.string()), ("y", pa.int32())])))])
    records = [
        {"tags": [{"x": "a", "y": None}]},
        {"tags": None},
        {"tags": []},
        {"tags": [{"x": "a", "y": None}, {"x": "b", "y": 2}]},
    ]
    values, fitting = fit("dead-letter", records, schema)
    assert values == [{"tags": [{"x": "a"}]}, {"tags": None}, {"tags": []}]
    assert list(messages(fitting)) == [3]


def test_wider_type_is_refused_if_the_format_cannot_widen_columns() -> None:
    schema = pa.schema([("id", pa.int64())])
    values, fitting = fit("evolve", [{"id": 2**40}], schema, can_widen=False)
    assert values == []
    assert messages(fitting) == {0: "column id has type int32, which cannot store or become int64"}
    assert fit("evolve", [{"id": 2**40}], schema)[1].make_schema().field("id").type == pa.int64()


@pytest.mark.parametrize("policy", ["evolve", "ignore", "dead-letter", "fail"])
def test_first_batch_determines_the_columns(policy: str) -> None:
    fitting = Fitting(Target(policy=policy, can_widen=False))
    for number, column_type in enumerate([pa.int32(), pa.int64()]):
        fitting.fit(group([{"a": 1}], pa.schema([("a", column_type)]), first_row=number))
    fitting.fit(group([{"b": "x"}], pa.schema([("b", pa.string())]), first_row=2))
    assert fitting.types == {"a": pa.int64(), "b": pa.string()}
    assert (fitting.changes, fitting.errors, fitting.ignored) == ([], {}, [])


def test_joined_type_does_not_depend_on_the_order() -> None:
    for types in ([pa.decimal128(10, 2), pa.decimal128(9, 0)], [pa.decimal128(9, 0), pa.decimal128(10, 2)]):
        fitting = Fitting(Target())
        for number, column_type in enumerate(types):
            fitting.fit(group([{"a": None}], pa.schema([("a", column_type)]), first_row=number))
        assert fitting.types == {"a": pa.decimal128(11, 2)}


def test_column_of_the_connector_requires_a_policy_that_adds_it() -> None:
    fitting = Fitting(Target(schema=TABLE))
    fitting.require_column("__deleted", pa.bool_())
    assert fitting.make_schema().names[-1] == "__deleted"
    for schema in (TABLE, TABLE.append(pa.field("__deleted", pa.string()))):
        with pytest.raises(SchemaMismatch, match="__deleted"):
            Fitting(Target(policy="fail", schema=schema)).require_column("__deleted", pa.bool_())
