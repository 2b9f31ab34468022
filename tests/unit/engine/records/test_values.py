"""Tests for the conversion of Arrow columns to Connect values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.types import VariantVal

from kraal.engine.records.values import read_times, read_values
from kraal.plugins.model.records import Float32, Instant, Struct
from kraal.plugins.model.schema import STRING, Field, Schema, Type

LONG = Schema(type=Type.INT64)


def test_structs_lists_and_maps_are_converted_with_their_schema() -> None:
    schema = Schema(type=Type.STRUCT, fields=(Field(name="a", schema=LONG), Field(name="b", schema=STRING)))
    column = pa.array([{"a": 1, "b": None}, None], pa.struct([("a", pa.int64()), ("b", pa.string())]))
    first_value, second_value = read_values(column, schema)
    assert isinstance(first_value, Struct)
    assert (first_value.schema, first_value.values, second_value) == (schema, {"a": 1, "b": None}, None)
    struct_lists = pa.array([[{"a": 2}], []], pa.list_(pa.struct([("a", pa.int64())])))
    structs = read_values(struct_lists, Schema(type=Type.ARRAY, value=schema))
    assert [[struct.values for struct in row] for row in structs] == [[{"a": 2}], []]
    pairs = pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float32()))
    (map_value,) = read_values(pairs, Schema(type=Type.MAP, key=STRING, value=Schema(type=Type.FLOAT32)))
    assert map_value == {"k": 1.5}
    assert type(map_value["k"]) is Float32


def test_timestamps_become_instants_and_decimals_are_unchanged() -> None:
    timestamp = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC)
    assert read_values(pa.array([timestamp], pa.timestamp("us", tz="UTC")), None) == [Instant(1500)]
    assert read_values(pa.array([dt.date(1970, 1, 3)], pa.date32()), None) == [Instant(2 * 86_400_000)]
    assert read_values(pa.array([Decimal("1.50")], pa.decimal128(10, 2)), None) == [Decimal("1.50")]
    assert read_times(pa.array([timestamp, None], pa.timestamp("us", tz="UTC"))) == [1500, None]
    pre_epoch = pa.array([-1, -1000, -1001], pa.int64())
    assert read_times(pre_epoch.cast(pa.timestamp("us", tz="UTC"))) == [-1, -1, -2], (
        "rounded down as in the column path"
    )
    assert read_times(pre_epoch.cast(pa.timestamp("ms", tz="UTC"))) == [-1, -1000, -1001]


def test_structs_and_variants_without_a_schema_become_plain_values() -> None:
    assert read_values(pa.array([{"x": {"y": 1}}]), None) == [{"x": {"y": 1}}]
    variant = VariantVal.parseJson('{"a":[1,"b",null]}')
    column = pa.array(
        [{"value": variant.value, "metadata": variant.metadata}],
        pa.struct([("value", pa.binary()), ("metadata", pa.binary())]),
    )
    assert read_values(column, None) == [{"a": [1, "b", None]}]


def test_unsupported_arrow_type_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"^transforms do not support columns of type duration"):
        read_values(pa.array([1], pa.duration("s")), None)
