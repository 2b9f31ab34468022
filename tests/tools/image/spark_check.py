"""Checks the features of Spark in an image that omits parts of Spark: `python spark_check.py DIRECTORY`.

Runs the examples in the documentation of all SQL functions, and checks files of each format and compression, tables,
Python functions, state stores, the web UI and settings that select other classes. Prints one JSON object with the
number of examples, missing classes and failures. The image has no test packages, so this script must import
only packages of a worker.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

EXAMPLE: Final = re.compile(r"^\s+> (.+);$", re.MULTILINE)
MISSING_CLASS_ERROR: Final = re.compile(
    r"ClassNotFound|NoClassDefFound|NoSuchMethod|NoSuchField|UnsatisfiedLink|ServiceConfig"
)
"""Errors of missing classes. Other errors are ignored, because some examples fail on purpose."""
ROW_COUNT: Final = 1000
TEXT_CODECS: Final = ("none", "gzip", "bzip2", "deflate", "lz4", "snappy")
CODECS: Final[Mapping[str, tuple[str, ...]]] = {
    "parquet": ("none", "snappy", "gzip", "lz4_raw", "zstd"),
    "orc": ("none", "snappy", "zlib", "lz4", "zstd"),
    "json": TEXT_CODECS,
    "csv": TEXT_CODECS,
    "xml": TEXT_CODECS,
    "text": TEXT_CODECS,
}
STORES: Final = ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")
STATE_PACKAGE: Final = "org.apache.spark.sql.execution.streaming.state"
STATEMENTS: Final = (
    "CREATE TABLE t USING parquet PARTITIONED BY (part) AS SELECT id, id % 3 AS part FROM range(100)",
    "INSERT INTO t SELECT id, 7 FROM range(10)",
    "SELECT part, count(DISTINCT id), rank() OVER (ORDER BY part) FROM t GROUP BY CUBE (part)",
    "SELECT a.id FROM t a JOIN t b ON a.id = b.id LEFT ANTI JOIN t c ON c.id > a.id",
    "SELECT 'Ä' COLLATE UNICODE_CI = 'ä', upper('straße' COLLATE DE), date_format(current_date(), 'EEEE d. MMMM')",
    "SELECT * FROM t PIVOT (count(*) FOR part IN (0, 1))",
    "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS",
    "EXPLAIN CODEGEN SELECT id + 1 FROM t",
    "DROP TABLE t",
)
WITHOUT_COMPILATION: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}
"""Settings that avoid compilation, which would take most of the time of the examples."""
SETTINGS: Final[Mapping[str, str]] = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.io.encryption.enabled": "true",
    "spark.io.compression.codec": "zstd",
    "spark.eventLog.enabled": "true",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
}
"""Settings of the second session. The first session has the settings of a worker."""


def start_session(directory: Path, **settings: str) -> SparkSession:
    """Start a Spark session with its files in a directory."""
    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        **settings,
    }
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # a container may be unable to resolve its own host name
    return SparkSession.builder.master("local[2]").config(map=dict(options)).getOrCreate()


def list_examples(spark: SparkSession) -> list[str]:
    """Return the distinct examples of all built-in functions."""
    untyped_session: Any = spark
    registry = untyped_session._jsparkSession.sessionState().functionRegistry()  # noqa: SLF001 - there is no public API
    functions = registry.listFunction()
    statements: dict[str, None] = {}
    for number in range(functions.size()):
        description = registry.lookupFunction(functions.apply(number)).get()
        statements |= dict.fromkeys(EXAMPLE.findall(description.getExamples()))
    return list(statements)


def run_check(label: str, action: Callable[[], object]) -> str | None:
    """Run an action. Return an error message if it fails, or None if it succeeds."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - any error is reported
        return f"{label}: {type(error).__name__}: {str(error)[:2000]}"
    return None


def find_missing_classes(spark: SparkSession, statements: list[str]) -> Iterator[str]:
    """Run the examples and yield the errors of missing classes."""
    isolated_session = spark.newSession()
    for key, value in WITHOUT_COMPILATION.items():
        isolated_session.conf.set(key, value)
    with ThreadPoolExecutor(2) as pool:
        for error in pool.map(
            lambda statement: run_check(statement, partial(execute, isolated_session, statement)), statements
        ):
            if error is not None and MISSING_CLASS_ERROR.search(error):
                yield error


def list_checks(spark: SparkSession, directory: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the checks of a worker's session."""
    for kind, codecs in CODECS.items():
        for codec in codecs:
            yield f"{kind} with {codec}", partial(check_files, spark, directory, kind, codec)
    for statement in STATEMENTS:
        yield statement, partial(execute, spark, statement)
    yield "Python functions", partial(check_python_functions, spark)
    for store in STORES:
        yield store, partial(check_stateful_stream, spark, directory, store)


def execute(spark: SparkSession, statement: str) -> None:
    """Execute a statement."""
    spark.sql(statement).collect()


def check_files(spark: SparkSession, directory: Path, kind: str, codec: str) -> None:
    """Write files of one format and compression, and read them."""
    path = str(directory / f"{kind}-{codec}")
    columns = ["cast(id AS string) AS value"] if kind == "text" else ["id", "cast(id AS string) AS name"]
    spark.range(ROW_COUNT).selectExpr(*columns).write.format(kind).options(
        rowTag="r", compression=codec
    ).save(path)
    reader = spark.read.format(kind).option("rowTag", "r")
    schemas = {"csv": "id BIGINT, name STRING"}
    count = (reader.schema(schemas[kind]) if kind in schemas else reader).load(path).count()
    assert count == ROW_COUNT, count


def check_python_functions(spark: SparkSession) -> None:
    """Transfer rows from Python to Spark, to Python workers, and back."""
    table = pa.table({"n": list(range(ROW_COUNT))})
    double = udf(lambda n: n * 2, "bigint")
    assert spark.createDataFrame(table).select(double("n")).toArrow().num_rows == ROW_COUNT
    assert spark.sparkContext.parallelize(range(ROW_COUNT)).map(lambda n: n * 2).sum() == ROW_COUNT * (
        ROW_COUNT - 1
    )


def check_stateful_stream(spark: SparkSession, directory: Path, store: str) -> None:
    """Run a stateful stream, resume it from its checkpoint, and read its state."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{STATE_PACKAGE}.{store}")
    source, checkpoint = directory / f"{store}-in", str(directory / store)
    for number in (1, 2):
        spark.range(ROW_COUNT * number).write.mode("append").parquet(str(source))
        stream = spark.readStream.schema("id BIGINT").parquet(str(source))
        counts = stream.dropDuplicates(["id"]).groupBy("id").count()
        writer = counts.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
        writer.option("checkpointLocation", checkpoint).start().awaitTermination()
        count = spark.read.format("statestore").load(checkpoint).count()
        assert count == ROW_COUNT * number, count


def list_second_session_checks(
    spark: SparkSession, directory: Path
) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the checks of the second session."""
    yield (
        "Kryo, encryption, zstd",
        lambda: spark.range(ROW_COUNT).repartition(4).rdd.map(tuple).distinct().count(),
    )
    for path in ("/jobs/", "/SQL/", "/api/v1/applications"):
        yield path, partial(request_page, f"{spark.sparkContext.uiWebUrl}{path}")
    yield "event log", lambda: next(directory.rglob("*.zstd*"))


def request_page(url: str) -> None:
    """Request a page."""
    httpx2.get(url, trust_env=False).raise_for_status()


def main(directory: Path) -> None:
    """Run all checks and print the result."""
    spark = start_session(directory)
    statements = list_examples(spark)
    missing_classes = list(find_missing_classes(spark, statements))
    failures = [failure for check in list_checks(spark, directory) if (failure := run_check(*check))]
    spark.stop()
    logs = directory / "events"
    logs.mkdir()
    spark = start_session(directory, **SETTINGS, **{"spark.eventLog.dir": logs.as_uri()})
    failures += [
        failure for check in list_second_session_checks(spark, logs) if (failure := run_check(*check))
    ]
    spark.stop()
    sys.stdout.write(
        json.dumps({"examples": len(statements), "missing": missing_classes, "failed": failures}) + "\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
