"""Tests that the columns of a plugin's table are cast to the types of Kafka records, or rejected."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from kraal.engine.records.source_pass import HEADERS
from kraal.engine.source.table_types import with_kafka_types
from kraal.plugins.api import SourceBatch

HEADERS_BY_ROW = [[{"key": "h", "value": b"x"}, {"key": "i", "value": None}], None]
KAFKA_TYPES = {"topic": pa.string(), "partition": pa.int32(), "headers": HEADERS}


def convert_column(name: str, values: list[Any], arrow_type: pa.DataType) -> pa.Table:
    batch = SourceBatch(
        offsets={}, table=pa.table({name: pa.array(values, arrow_type), "value": ["a"] * len(values)})
    )
    table = with_kafka_types(batch).table
    assert table is not None
    assert table.column_names == [name, "value"]
    return table[name]


def struct(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    return pa.struct([("key", key), ("value", value)])


@pytest.mark.parametrize(
    ("name", "values", "arrow_type"),
    [
        ("topic", ["a", None], pa.large_string()),
        ("topic", ["a", "b"], pa.string_view()),
        ("topic", ["a", "a"], pa.dictionary(pa.int8(), pa.large_string())),
        ("topic", [None, None], pa.null()),
        ("partition", [0, None], pa.int64()),
        ("partition", [7, -1], pa.int8()),
        ("partition", [7, None], pa.uint32()),
        ("partition", [7, 7], pa.dictionary(pa.int8(), pa.int64())),
        ("partition", [None, None], pa.null()),
        ("headers", HEADERS_BY_ROW, pa.large_list(struct(pa.large_string(), pa.large_binary()))),
        ("headers", HEADERS_BY_ROW, pa.list_view(struct(pa.string_view(), pa.binary_view()))),
        ("headers", HEADERS_BY_ROW, pa.list_(struct(pa.string(), pa.binary()), 2)),
        ("headers", HEADERS_BY_ROW, pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))),
        (
            "headers",
            HEADERS_BY_ROW,
            pa.list_(pa.field("element", struct(pa.string(), pa.binary()), nullable=False)),
        ),
        ("headers", [None, None], pa.null()),
    ],
)
def test_column_of_a_compatible_type_is_cast(name: str, values: list[Any], arrow_type: pa.DataType) -> None:
    column = convert_column(name, values, arrow_type)
    assert column.type == KAFKA_TYPES[name]
    assert column.to_pylist() == values


def test_headers_as_a_map_or_with_text_are_cast() -> None:
    pairs = [[("h", "x")]]
    assert convert_column("headers", pairs, pa.map_(pa.string(), pa.string())).to_pylist() == [
        [{"key": "h", "value": b"x"}]
    ]


@pytest.mark.parametrize(
    ("name", "values", "arrow_type", "message"),
    [
        ("topic", [1], pa.int32(), "Invalid type int32 of column 'topic'"),
        ("topic", [b"a"], pa.binary(), "Invalid type binary of column 'topic'"),
        ("partition", ["1"], pa.string(), "Invalid type string of column 'partition'"),
        ("partition", [1.0], pa.float64(), "Invalid type double of column 'partition'"),
        ("partition", [1 << 40], pa.int64(), "Invalid value in column 'partition'"),
        ("headers", [[{"key": None}]], HEADERS, "Invalid value in column 'headers'"),
        ("headers", ["h"], pa.string(), "Invalid type string of column 'headers'"),
        ("headers", [["h"]], pa.list_(pa.string()), "of column 'headers'"),
        ("headers", [[{"key": "h"}]], pa.list_(pa.struct([("key", pa.string())])), "of column 'headers'"),
        ("headers", [[("h", 1)]], pa.map_(pa.string(), pa.int32()), "of column 'headers'"),
    ],
)
def test_column_of_an_unsupported_type_is_rejected(
    name: str, values: list[Any], arrow_type: pa.DataType, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        convert_column(name, values, arrow_type)


def test_table_of_the_right_types_and_batch_without_a_table_are_unchanged() -> None:
    table = pa.table(
        {"topic": ["t"], "headers": pa.nulls(1, HEADERS), "partition": pa.array([1], pa.int32())}
    )
    for batch in (
        SourceBatch(offsets={}, table=table),
        SourceBatch(offsets={}, read=lambda spark: spark.range(1)),
    ):
        assert with_kafka_types(batch) is batch
