"""Tests for the conditions under which source batches take the column path or share a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from kraal.converters.json.converter import JsonConverter
from kraal.engine.columns.source import SourceColumns, needs_record_path
from kraal.engine.columns.types import fits
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import Converter, SourceBatch
from kraal.plugins.model.records import DATE, TIME, DataException, Record
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import Chain, Stage, make_chain
from kraal.transforms.hoist_field import HoistFieldValue
from tests.fakes.spark.column_path import JSON_CONVERTER, STRING_CONVERTER, chain_steps, chained
from tests.fakes.spark.plugins import Text

REGISTRY = Registry.load()
HOIST = {"type": "HoistField$Value", "field": "line"}
INSERT_TOPIC = {"type": "InsertField$Value", "topic.field": "topic"}
NUMBER = Schema(type=Type.INT32)
ROW = Schema(type=Type.STRUCT, fields=(Field(name="a", schema=NUMBER), Field(name="b", schema=STRING)))
VALUE_COLUMN = frozenset({"value"})


def make_columns(config: Mapping[str, str], value_converter: str = JSON_CONVERTER) -> SourceColumns:
    steps = chain_steps(make_chain(REGISTRY, config), value_converter)
    return SourceColumns(steps, Converters(steps.key, steps.value, ("same",)), tuple(sorted(config.items())))


def batch(schema: Schema | None = STRING, topic: str | None = "a", **fields: Any) -> SourceBatch:
    return SourceBatch(offsets={}, topic=topic, value_schema=schema, timestamp_ms=1, **fields)


def conditional_filter(predicate: str) -> dict[str, str]:
    """Return the config of a chain that drops the records for which a predicate is true."""
    return {
        **chained({"type": "Filter", "predicate": "p"}),
        "predicates": "p",
        **{
            f"predicates.p.{key}": text
            for key, text in {
                "topic a": {"type": "TopicNameMatches", "pattern": "a"},
                "topic b": {"type": "TopicNameMatches", "pattern": "b"},
                "header": {"type": "HasHeaderKey", "name": "h"},
                "tombstone": {"type": "RecordIsTombstone"},
            }[predicate].items()
        },
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates."
        + {"header": "HasHeaderKey", "tombstone": "RecordIsTombstone"}.get(predicate, "TopicNameMatches"),
    }


@pytest.mark.parametrize(
    ("config", "source_batch", "columns", "is_accepted"),
    [
        pytest.param(chained(HOIST, INSERT_TOPIC), batch(), {"value"}, True, id="a line"),
        pytest.param(chained(HOIST), batch(None), {"value"}, False, id="no schema"),
        pytest.param(chained(HOIST), batch(), {"topic"}, False, id="no value"),
        pytest.param(chained(HOIST), batch(topic=None), {"value"}, False, id="no topic"),
        pytest.param(chained(HOIST), batch(topic=None), {"value", "topic"}, True, id="topics by row"),
        pytest.param(chained(HOIST), batch(), {"value", "key"}, False, id="a key without a schema"),
        pytest.param(chained({"type": "Cast$Value", "spec": "int32"}), batch(), {"value"}, True, id="a cast"),
        pytest.param(
            chained({"type": "Cast$Value", "spec": "float64"}), batch(), {"value"}, False, id="no column form"
        ),
        pytest.param(
            chained({"type": "ExtractField$Value", "field": "z"}),
            batch(ROW),
            {"value"},
            False,
            id="missing field",
        ),
        pytest.param(
            chained({"type": "MaskField$Value", "fields": "a", "replacement": "x"}),
            batch(ROW),
            {"value"},
            False,
            id="replacement is not a number",
        ),
        pytest.param(
            chained({**INSERT_TOPIC, "offset.field": "o"}), batch(ROW), {"value"}, False, id="an offset"
        ),
        pytest.param(conditional_filter("topic b"), batch(), {"value"}, True, id="no record matches"),
        pytest.param(
            conditional_filter("topic a"),
            batch(),
            {"value"},
            False,
            id="all records match and are dropped",
        ),
        pytest.param(conditional_filter("header"), batch(), {"value"}, True, id="no headers"),
        pytest.param(
            conditional_filter("header"),
            batch(),
            {"value", "headers"},
            False,
            id="possible header",
        ),
        pytest.param(conditional_filter("tombstone"), batch(), {"value"}, False, id="possible nulls"),
    ],
)
def test_column_path_requires_known_schemas_and_stages_with_column_forms(
    config: dict[str, str], source_batch: SourceBatch, columns: set[str], *, is_accepted: bool
) -> None:
    assert (make_columns(config).plan(source_batch, frozenset(columns)) is not None) is is_accepted


@pytest.mark.parametrize(
    ("schema", "value_converter", "is_accepted"),
    [
        (STRING, STRING_CONVERTER, True),
        (Schema(type=Type.INT32, name=DATE), JSON_CONVERTER, True),
        (Schema(type=Type.INT32, name=DATE), STRING_CONVERTER, False),
        (Schema(type=Type.INT32, name=TIME), JSON_CONVERTER, False),
        (ROW, STRING_CONVERTER, False),
    ],
)
def test_column_path_requires_converters_with_exact_columns(
    schema: Schema, value_converter: str, *, is_accepted: bool
) -> None:
    chain = chained({"type": "RegexRouter", "regex": "a", "replacement": "b"})
    steps = chain_steps(make_chain(REGISTRY, chain), value_converter)
    plan = SourceColumns(steps, Converters(steps.key, steps.value, ()), ()).plan(batch(schema), VALUE_COLUMN)
    assert (plan is not None) is is_accepted
    if plan is not None:
        assert plan[1] == "b"


class LouderJson(JsonConverter):
    """Overrides `encode` but not the inherited column form."""

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        raise DataException("louder")


class RenamedJson(JsonConverter):
    """Overrides no methods."""


@pytest.mark.parametrize(
    ("converter", "is_accepted"), [(Text, False), (LouderJson, False), (RenamedJson, True)]
)
def test_column_path_requires_the_converter_class_to_declare_exact_columns(
    converter: type[Converter], *, is_accepted: bool
) -> None:
    custom = converter()
    custom.configure({}, is_key=False)
    steps = replace(chain_steps(make_chain(REGISTRY, chained(HOIST))), value=custom)
    plan = SourceColumns(steps, Converters(steps.key, custom, ()), ()).plan(batch(), VALUE_COLUMN)
    assert (plan is not None) is is_accepted


class LouderHoistField(HoistFieldValue):
    """Overrides `apply` but not the inherited column form."""

    @override
    def apply(self, record: Record) -> Record:
        raise DataException("louder")


def test_transform_that_overrides_apply_requires_the_record_path() -> None:
    transform = LouderHoistField()
    transform.configure({"field": "line"})
    steps = chain_steps(Chain((Stage(alias="l", class_name="LouderHoistField", transformation=transform),)))
    assert (
        SourceColumns(steps, Converters(steps.key, steps.value, ()), ()).plan(batch(), VALUE_COLUMN) is None
    )


def test_batches_with_equal_plans_share_a_job() -> None:
    def identity(schema: Schema = STRING, topic: str = "a", *stages: dict[str, str]) -> object:
        planned = make_columns(chained(*(stages or (HOIST, INSERT_TOPIC)))).plan(
            batch(schema, topic), VALUE_COLUMN
        )
        assert planned is not None
        return planned[0].identity()

    assert identity() == identity()
    assert identity() != identity(topic="b"), "the topic is a field of the value"
    assert identity(STRING, "a", HOIST) == identity(STRING, "b", HOIST)
    assert identity() != identity(NUMBER)
    assert identity() != identity(STRING, "a", HOIST)
    assert identity(STRING, "a", HOIST) != identity(STRING, "a", {**HOIST, "field": "other"})


def test_errors_that_require_the_record_path_are_recognized() -> None:
    assert needs_record_path(ValueError("Invalid schema type"))
    assert needs_record_path(RuntimeError("[USER_RAISED_EXCEPTION] no"))
    assert not needs_record_path(RuntimeError("the broker is gone"))


def test_column_types_must_match_their_schemas() -> None:
    from pyspark.sql import types as T  # noqa: N812, PLC0415 - Spark's own convention

    row = T.StructType([T.StructField("a", T.IntegerType()), T.StructField("b", T.StringType())])
    assert fits(row, ROW)
    assert fits(T.ArrayType(row), Schema(type=Type.ARRAY, value=ROW))
    assert not fits(T.LongType(), NUMBER)
    assert not fits(T.StructType([*row.fields, T.StructField("A", T.IntegerType())]), ROW)
    assert not fits(T.IntegerType(), Schema(type=Type.INT32, name=DATE))
