"""The config keys of SparkSink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kraal.config.checks import one_of
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Recommendation, in_group
from kraal.connectors.jdbc.timeouts import TIMEOUTS
from kraal.connectors.spark.checks import (
    FILE_FORMATS,
    JDBC,
    PYTHON,
    check_writable_folder,
    distinct_subset_of,
    name_key_in_errors,
    require_all,
    require_with_formats,
    validate_ddl,
    validate_identifiers,
    validate_python_class,
)
from kraal.connectors.spark.ddl import parse_columns

AT_LEAST_ONCE: Final = "at_least_once"
EXACTLY_ONCE: Final = "exactly_once"
METADATA: Final = ("topic", "partition", "offset", "timestamp", "key")


def _check_path(name: str, values: Mapping[str, object]) -> Recommendation:
    if values.get(name):
        check_writable_folder(str(values[name]))
    return Recommendation()


def _check_single_text_column(name: str, values: Mapping[str, object]) -> Recommendation:
    """Reject settings that are incompatible with the single string column of the format text."""
    if values.get("spark.format") != "text" or not values.get(name):
        return Recommendation()
    schema = values.get("spark.schema")
    columns = parse_columns(str(schema)) if schema else {"value": "string"}
    if values.get("metadata.columns") or list(columns.values()) != ["string"]:
        raise ValueError("spark.format=text writes one column, of type string")
    return Recommendation()


def _check_guarantee(name: str, values: Mapping[str, object]) -> Recommendation:
    """Reject guarantees that a Python Data Source cannot provide."""
    if values.get(name) == EXACTLY_ONCE and values.get("spark.format") == PYTHON:
        raise ValueError("a Python Data Source commits on its own, before the offsets are committed")
    return Recommendation()


def _show_if_exactly_once(name: str, values: Mapping[str, object]) -> Recommendation:
    del name
    return Recommendation(visible=values.get("delivery.guarantee") == EXACTLY_ONCE)


_TARGET: Final = in_group(
    "Target",
    Key(
        name="spark.format",
        type=ConfigType.STRING,
        validator=one_of(*FILE_FORMATS, JDBC, PYTHON),
        importance=Importance.HIGH,
        doc="What to write: files in one of Spark's formats, a database table, or a Python Data Source.",
    ),
    Key(
        name="path",
        type=ConfigType.STRING,
        default=None,
        importance=Importance.HIGH,
        doc="Directory of the files; it is created if it does not exist. It must be on a file system that all workers "
        "and Spark's executors share, or in an object store: `s3a://BUCKET/…`.",
        recommender=require_all(require_with_formats(FILE_FORMATS), name_key_in_errors(_check_path)),
    ),
    Key(
        name="jdbc.table",
        type=ConfigType.STRING,
        default=None,
        validator=validate_identifiers,
        importance=Importance.HIGH,
        doc="Table to add rows to; Spark creates it if it does not exist.",
        recommender=require_with_formats((JDBC,)),
    ),
    Key(
        name="spark.python.datasource",
        type=ConfigType.STRING,
        default=None,
        validator=validate_python_class,
        importance=Importance.HIGH,
        doc="Python Data Source with a writer, `package.module:Class`. Its package must be installed on the worker "
        "and on Spark's executors, where its code runs.",
        recommender=require_with_formats((PYTHON,)),
    ),
    Key(
        name="delivery.guarantee",
        type=ConfigType.STRING,
        default=AT_LEAST_ONCE,
        validator=one_of(AT_LEAST_ONCE, EXACTLY_ONCE),
        importance=Importance.MEDIUM,
        doc="Minimum delivery guarantee; files are always written exactly once. With `exactly_once`, the rows of a "
        "table and the offsets of their records are committed in one transaction.",
        recommender=name_key_in_errors(_check_guarantee),
    ),
    Key(
        name="jdbc.offsets.table",
        type=ConfigType.STRING,
        default="kraal_sink_offsets",
        validator=validate_identifiers,
        importance=Importance.LOW,
        doc="Table, in the same database, that stores the offsets for `delivery.guarantee=exactly_once`; it is "
        "created if it does not exist. Several connectors can share it.",
        recommender=_show_if_exactly_once,
    ),
    *TIMEOUTS,
)

_COLUMNS: Final = in_group(
    "Columns",
    Key(
        name="spark.schema",
        type=ConfigType.STRING,
        default=None,
        validator=validate_ddl,
        importance=Importance.HIGH,
        doc="Columns of JSON values, in Spark's DDL. Default: one column, `value`; values with a schema have the "
        "columns of that schema.",
        recommender=name_key_in_errors(_check_single_text_column),
    ),
    Key(
        name="metadata.columns",
        type=ConfigType.LIST,
        default=(),
        validator=distinct_subset_of(*METADATA),
        importance=Importance.MEDIUM,
        doc="Additional columns: `kafka_topic`, `kafka_partition`, `kafka_offset`, `kafka_timestamp`, `kafka_key`.",
        recommender=name_key_in_errors(_check_single_text_column),
    ),
)

SPARK_SINK: Final = ConfigDef([*_TARGET, *_COLUMNS])


def is_exactly_once(parsed: Mapping[str, Any]) -> bool:
    """Return whether the config requires exactly-once writes to a table."""
    return bool(parsed["spark.format"] == JDBC and parsed["delivery.guarantee"] == EXACTLY_ONCE)


def needs_json_text(parsed: Mapping[str, Any]) -> bool:
    """Return whether schemaless values are needed as JSON text, to parse columns or to write lines."""
    return bool(
        parsed["spark.schema"] or (parsed["spark.format"] == "json" and not parsed["metadata.columns"])
    )
