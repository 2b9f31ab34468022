"""Avro with a schema registry on its way through real Spark and a real broker."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa

from kraal.offsets import SourcePartition
from kraal.plugins.api import SourceBatch
from kraal.plugins.schema import STRING, Field, Schema, Type
from kraal.spark.api import BatchDone, Committed, Opened, Stopped
from tests.fakes import spark_plugins as plugins
from tests.fakes.schema_registry import schema_registry
from tests.fakes.spark_stage import Opening, Stage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AVRO = "io.confluent.connect.avro.AvroConverter"
LONG = Schema(type=Type.INT64, optional=True)
ORDER = Schema(
    type=Type.STRUCT,
    name="shop.Order",
    fields=(Field(name="id", schema=STRING), Field(name="n", schema=LONG)),
)
TABLE = pa.table({"key": ["k"], "value": [{"id": "a", "n": 5}]})


def opened(stage: Stage, connector: str, config: dict[str, str]) -> tuple[str, Opening]:
    name = f"registry-{uuid.uuid4().hex[:8]}"
    opening = stage.open(name, connector, config)
    opening.expect(Opened)
    return name, opening


def end(opening: Opening) -> None:
    opening.run.stop()
    assert opening.expect(Stopped).clean


def test_records_go_one_by_one_through_a_converter_that_knows_no_columns(stage: Stage) -> None:
    """A small batch in the worker, one that Spark reads in its Python processes, and both back to a sink."""
    topic = stage.topic()

    def read(spark: SparkSession) -> DataFrame:
        return spark.createDataFrame(TABLE).coalesce(1)

    with schema_registry() as registry:
        config = {
            f"{part}.converter{more}": text
            for part in ("key", "value")
            for more, text in (("", AVRO), (".schema.registry.url", registry.url))
        }
        task, source = opened(stage, "ListSource", config)
        for place, given in enumerate(({"table": TABLE}, {"read": read})):
            offsets = {SourcePartition.of({"list": "a"}): {"position": place}}
            batch = SourceBatch(
                offsets=offsets,
                topic=topic,
                key_schema=STRING,
                value_schema=ORDER,
                **given,
            )
            plugins.BATCHES[task].append(batch)
            source.run.next()
            done = source.expect(BatchDone)
            assert (done.records, done.offsets) == (1, offsets)
        end(source)
        ids = {name: versions[0] for name, versions in registry.subjects.items()}
        assert sorted(ids) == [f"{topic}-key", f"{topic}-value"]
        assert registry.latest(f"{topic}-value")["name"] == "Order"
        key = b"\0" + ids[f"{topic}-key"].to_bytes(4, "big") + b"\x02k"
        value = b"\0" + ids[f"{topic}-value"].to_bytes(4, "big") + b"\x02a\x02\x0a"
        sent = [(each.key(), each.value()) for each in stage.messages(topic, 2)]
        assert sent == [(key, value)] * 2
        task, sink = opened(stage, "ListSink", {**config, "topics": topic})
        left = 2
        while left:
            sink.run.next()
            done = sink.expect(BatchDone)
            sink.run.commit(done.offsets)
            sink.expect(Committed)
            left -= done.read or 0
        end(sink)
    assert [row[-1] for row in plugins.WRITTEN[task]] == ['{"id":"a","n":5}'] * 2
