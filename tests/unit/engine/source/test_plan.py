"""Which batches of a source go by columns, and which of them in one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from kraal.converters.json.converter import JsonConverter
from kraal.engine.columns.source import SourceColumns, is_doubt
from kraal.engine.columns.types import fits
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import Converter, SourceBatch
from kraal.plugins.model.records import DATE, TIME, DataException, Record
from kraal.plugins.model.schema import STRING, Field, Schema, Type
from kraal.plugins.registry import Registry
from kraal.plugins.transform_chain import Chain, Stage, make_chain
from kraal.transforms.hoist_field import HoistFieldValue
from tests.fakes.spark.column_path import JSON, TEXT, chained, steps_of
from tests.fakes.spark.plugins import Text

REGISTRY = Registry.load()
HOIST = {"type": "HoistField$Value", "field": "line"}
TOPIC = {"type": "InsertField$Value", "topic.field": "topic"}
NUMBER = Schema(type=Type.INT32)
ROW = Schema(type=Type.STRUCT, fields=(Field(name="a", schema=NUMBER), Field(name="b", schema=STRING)))
VALUE = frozenset({"value"})


def columns_of(config: Mapping[str, str], value: str = JSON) -> SourceColumns:
    steps = steps_of(make_chain(REGISTRY, config), value)
    return SourceColumns(steps, Converters(steps.key, steps.value, ("same",)), tuple(sorted(config.items())))


def batch(schema: Schema | None = STRING, topic: str | None = "a", **more: Any) -> SourceBatch:
    return SourceBatch(offsets={}, topic=topic, value_schema=schema, timestamp_ms=1, **more)


def by(given: str) -> dict[str, str]:
    """Return a chain that drops records under a condition."""
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
            }[given].items()
        },
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates."
        + {"header": "HasHeaderKey", "tombstone": "RecordIsTombstone"}.get(given, "TopicNameMatches"),
    }


@pytest.mark.parametrize(
    ("config", "given", "names", "goes"),
    [
        pytest.param(chained(HOIST, TOPIC), batch(), {"value"}, True, id="a line"),
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
            chained({"type": "ExtractField$Value", "field": "z"}), batch(ROW), {"value"}, False, id="fails"
        ),
        pytest.param(
            chained({"type": "MaskField$Value", "fields": "a", "replacement": "x"}),
            batch(ROW),
            {"value"},
            False,
            id="a replacement that is no number",
        ),
        pytest.param(chained({**TOPIC, "offset.field": "o"}), batch(ROW), {"value"}, False, id="an offset"),
        pytest.param(by("topic b"), batch(), {"value"}, True, id="no record meets the condition"),
        pytest.param(by("topic a"), batch(), {"value"}, False, id="all do, and are dropped"),
        pytest.param(by("header"), batch(), {"value"}, True, id="there are no headers"),
        pytest.param(by("header"), batch(), {"value", "headers"}, False, id="there may be such a header"),
        pytest.param(by("tombstone"), batch(), {"value"}, False, id="some may be null"),
    ],
)
def test_a_batch_goes_by_columns_when_nothing_depends_on_the_record(
    config: dict[str, str], given: SourceBatch, names: set[str], *, goes: bool
) -> None:
    assert (columns_of(config).plan(given, frozenset(names)) is not None) is goes


@pytest.mark.parametrize(
    ("schema", "value", "goes"),
    [
        (STRING, TEXT, True),
        (Schema(type=Type.INT32, name=DATE), JSON, True),
        (Schema(type=Type.INT32, name=DATE), TEXT, False),
        (Schema(type=Type.INT32, name=TIME), JSON, False),
        (ROW, TEXT, False),
    ],
)
def test_only_converters_whose_columns_are_exact_take_part(schema: Schema, value: str, *, goes: bool) -> None:
    chain = chained({"type": "RegexRouter", "regex": "a", "replacement": "b"})
    steps = steps_of(make_chain(REGISTRY, chain), value)
    plan = SourceColumns(steps, Converters(steps.key, steps.value, ()), ()).plan(batch(schema), VALUE)
    assert (plan is not None) is goes
    if plan is not None:
        assert plan[1] == "b"


class LouderJson(JsonConverter):
    """Writes other bytes than the columns that it inherits."""

    @override
    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        raise DataException("louder")


class RenamedJson(JsonConverter):
    """Overrides nothing."""


@pytest.mark.parametrize(("converter", "goes"), [(Text, False), (LouderJson, False), (RenamedJson, True)])
def test_a_converter_takes_part_if_it_declares_that_its_columns_are_exact(
    converter: type[Converter], *, goes: bool
) -> None:
    custom = converter()
    custom.configure({}, is_key=False)
    steps = replace(steps_of(make_chain(REGISTRY, chained(HOIST))), value=custom)
    plan = SourceColumns(steps, Converters(steps.key, custom, ()), ()).plan(batch(), VALUE)
    assert (plan is not None) is goes


class Louder(HoistFieldValue):
    """Does more to records than what it inherits does to columns."""

    @override
    def apply(self, record: Record) -> Record:
        raise DataException("louder")


def test_a_transform_that_changes_what_it_inherits_goes_by_records() -> None:
    louder = Louder()
    louder.configure({"field": "line"})
    steps = steps_of(Chain((Stage(alias="l", class_name="Louder", transformation=louder),)))
    assert SourceColumns(steps, Converters(steps.key, steps.value, ()), ()).plan(batch(), VALUE) is None


def test_batches_go_in_one_job_when_their_plans_hold_the_same() -> None:
    def identity(schema: Schema = STRING, topic: str = "a", *stages: dict[str, str]) -> object:
        planned = columns_of(chained(*(stages or (HOIST, TOPIC)))).plan(batch(schema, topic), VALUE)
        assert planned is not None
        return planned[0].identity()

    assert identity() == identity()
    assert identity() != identity(topic="b"), "the topic is a field of the value"
    assert identity(STRING, "a", HOIST) == identity(STRING, "b", HOIST)
    assert identity() != identity(NUMBER)
    assert identity() != identity(STRING, "a", HOIST)
    assert identity(STRING, "a", HOIST) != identity(STRING, "a", {**HOIST, "field": "other"})


def test_the_errors_that_repeat_a_batch_by_records() -> None:
    assert is_doubt(ValueError("Invalid schema type"))
    assert is_doubt(RuntimeError("[USER_RAISED_EXCEPTION] no"))
    assert not is_doubt(RuntimeError("the broker is gone"))


def test_columns_must_have_the_type_of_their_schema() -> None:
    from pyspark.sql import types as T  # noqa: N812, PLC0415 - Spark's own convention

    row = T.StructType([T.StructField("a", T.IntegerType()), T.StructField("b", T.StringType())])
    assert fits(row, ROW)
    assert fits(T.ArrayType(row), Schema(type=Type.ARRAY, value=ROW))
    assert not fits(T.LongType(), NUMBER)
    assert not fits(T.StructType([*row.fields, T.StructField("A", T.IntegerType())]), ROW)
    assert not fits(T.IntegerType(), Schema(type=Type.INT32, name=DATE))
