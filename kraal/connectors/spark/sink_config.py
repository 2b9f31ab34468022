"""The keys of SparkSink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.checks import one_of
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Recommendation, in_group
from kraal.connectors.jdbc.timeouts import TIMEOUTS
from kraal.connectors.spark.checks import (
    FILE_FORMATS,
    JDBC,
    PYTHON,
    advised,
    also,
    ddl,
    folder_to_write,
    identifiers,
    needed_by,
    python_class,
    some_of,
)
from kraal.connectors.spark.ddl import columns_of

AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE: Final = "exactly_once"
METADATA: Final = ("topic", "partition", "offset", "timestamp", "key")


def _path(name: str, values: Mapping[str, object]) -> Recommendation:
    if values.get(name):
        folder_to_write(str(values[name]))
    return Recommendation()


def _one_text_column(name: str, values: Mapping[str, object]) -> Recommendation:
    """Refuse what would be more than one column of text."""
    if values.get("spark.format") != "text" or not values.get(name):
        return Recommendation()
    schema = values.get("spark.schema")
    columns = columns_of(str(schema)) if schema else {"value": "string"}
    if values.get("metadata.columns") or list(columns.values()) != ["string"]:
        raise ValueError("spark.format=text writes one column, of type string")
    return Recommendation()


def _kept_by(name: str, values: Mapping[str, object]) -> Recommendation:
    """Refuse what a Python Data Source cannot keep."""
    if values.get(name) == EXACTLY_ONCE and values.get("spark.format") == PYTHON:
        raise ValueError("a Python Data Source commits by itself, before the offsets are")
    return Recommendation()


def _shown_with_tables(name: str, values: Mapping[str, object]) -> Recommendation:
    del name
    return Recommendation(visible=values.get("delivery.guarantee") == EXACTLY_ONCE)


_TARGET: Final = in_group(
    "Target",
    Key(
        name="spark.format",
        type=ConfigType.STRING,
        validator=one_of(*FILE_FORMATS, JDBC, PYTHON),
        importance=Importance.HIGH,
        doc="What is written: files of a format of Spark's, a table of a database, or a Python Data Source.",
    ),
    Key(
        name="path",
        type=ConfigType.STRING,
        default=None,
        importance=Importance.HIGH,
        doc="The directory of the files; it is created. It must be on a file system that all workers and Spark's "
        "executors see, or in an object store: `s3a://BUCKET/…`.",
        recommender=also(needed_by(FILE_FORMATS), advised(_path)),
    ),
    Key(
        name="jdbc.table",
        type=ConfigType.STRING,
        default=None,
        validator=identifiers,
        importance=Importance.HIGH,
        doc="The table that rows are added to; Spark creates it where there is none.",
        recommender=needed_by((JDBC,)),
    ),
    Key(
        name="spark.python.datasource",
        type=ConfigType.STRING,
        default=None,
        validator=python_class,
        importance=Importance.HIGH,
        doc="The Python Data Source with a writer, `package.module:Class`. Its package must be installed where the "
        "worker and Spark's executors run; its code runs there.",
        recommender=needed_by((PYTHON,)),
    ),
    Key(
        name="delivery.guarantee",
        type=ConfigType.STRING,
        default=AT_LEAST_ONCE,
        validator=one_of(AT_LEAST_ONCE, EXACTLY_ONCE),
        importance=Importance.MEDIUM,
        doc="What must hold at the least; files are exactly once in any case. With `exactly_once` the rows of a "
        "table and the offsets that they came from are committed in one transaction.",
        recommender=advised(_kept_by),
    ),
    Key(
        name="jdbc.offsets.table",
        type=ConfigType.STRING,
        default="kraal_sink_offsets",
        validator=identifiers,
        importance=Importance.LOW,
        doc="The table, in the same database, with the offsets of `delivery.guarantee=exactly_once`; it is made "
        "where there is none. Several connectors may share it.",
        recommender=_shown_with_tables,
    ),
    *TIMEOUTS,
)

_COLUMNS: Final = in_group(
    "Columns",
    Key(
        name="spark.schema",
        type=ConfigType.STRING,
        default=None,
        validator=ddl,
        importance=Importance.HIGH,
        doc="The columns that JSON values are taken apart into, in Spark's DDL. Without it there is one column, "
        "`value`; values that come with a schema have their own columns.",
        recommender=advised(_one_text_column),
    ),
    Key(
        name="metadata.columns",
        type=ConfigType.LIST,
        default=(),
        validator=some_of(*METADATA),
        importance=Importance.MEDIUM,
        doc="What is written beside the value: columns `kafka_topic`, `kafka_partition`, `kafka_offset`, "
        "`kafka_timestamp`, `kafka_key`.",
        recommender=advised(_one_text_column),
    ),
)

SPARK_SINK: Final = ConfigDef([*_TARGET, *_COLUMNS])
