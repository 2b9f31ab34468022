"""A Spark application without Kraal that applies change events to Delta tables with MERGE, on request.

The arguments are a JSON file with Spark's settings, and a directory of requests. A request is a file NAME.json with the
content `{"bootstrap": …, "topic": …, "table": …, "checkpoint": …, "records": …}`, where `records` is the maximum number
of records in a commit. For each request, the application runs a streaming query that ends with the topic, and writes
the duration in seconds to NAME.done. The file `end` stops the application.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

_ROW = "id: BIGINT, name: STRING, price: DOUBLE, paid: BOOLEAN"
_EVENT = f"payload STRUCT<before: STRUCT<{_ROW}>, after: STRUCT<{_ROW}>, op: STRING>"


def main(settings: Path, requests: Path) -> None:
    """Execute requests until the file `end` exists."""
    conf = SparkConf().setAll(list(json.loads(settings.read_text()).items()))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    (requests / "up").touch()
    while not (requests / "end").exists():
        for request in sorted(requests.glob("*.json")):
            done_file = request.with_suffix(".done")
            if not done_file.exists():
                start_s = time.monotonic()
                apply_changes(spark, json.loads(request.read_text()))
                duration_file = request.with_suffix(".seconds")
                duration_file.write_text(f"{time.monotonic() - start_s}")
                duration_file.rename(done_file)
        time.sleep(0.02)
    spark.stop()


def apply_changes(spark: SparkSession, request: Mapping[str, Any]) -> None:
    """Merge the last change of each key in each batch into the table, until the end of the topic."""

    def merge(batch: DataFrame, _: int) -> None:
        event = F.from_json(F.col("value").cast("string"), _EVENT).getField("payload")
        changes = batch.select("offset", event.alias("event")).select(
            F.coalesce("event.after.id", "event.before.id").alias("id"),
            F.struct("offset", "event.op", "event.after").alias("change"),
        )
        last = changes.groupBy("id").agg(F.max_by("change", "change.offset").alias("last"))
        last.select(
            "id", "last.op", "last.after.name", "last.after.price", "last.after.paid"
        ).createOrReplaceTempView("changes")
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{request['table']}` t USING changes s ON t.id = s.id "  # noqa: S608 - our own name
            "WHEN MATCHED AND s.op = 'd' THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET name = s.name, price = s.price, paid = s.paid "
            "WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT (id, name, price, paid) "
            "VALUES (s.id, s.name, s.price, s.paid)"
        )

    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", request["bootstrap"])
        .option("subscribe", request["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", request["records"])
        .load()
    )
    query = records.writeStream.foreachBatch(merge).trigger(availableNow=True)
    query.option("checkpointLocation", request["checkpoint"]).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
