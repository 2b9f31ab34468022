"""The config keys of SparkSource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.checks import at_least, non_empty, one_of
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Recommendation, in_group
from kraal.connectors.jdbc.timeouts import TIMEOUTS
from kraal.connectors.spark.checks import (
    FILE_FORMATS,
    JDBC,
    PYTHON,
    check_readable_folder,
    check_schema_columns,
    check_stream_checkpoint,
    name_key_in_errors,
    require_all,
    require_with_formats,
    validate_ddl,
    validate_identifiers,
    validate_python_class,
    validate_source_format,
)

MODES: Final = ("incrementing", "timestamp", "timestamp+incrementing", "bulk")


def _check_path(name: str, values: Mapping[str, object]) -> Recommendation:
    if values.get(name):
        check_readable_folder(str(values[name]))
    return Recommendation()


def _check_schema(name: str, values: Mapping[str, object]) -> Recommendation:
    spark_format = values.get("spark.format")
    if spark_format == "csv" and not values.get(name):
        raise ValueError("it is required with spark.format=csv")
    if values.get(name) and spark_format in {"text", JDBC}:
        raise ValueError(f"spark.format={spark_format} defines its own schema")
    return Recommendation()


def _check_topic(name: str, values: Mapping[str, object]) -> Recommendation:
    del name  # the error names all three keys
    keys = [key for key in ("topic", "topic.column", "topic.prefix") if values.get(key)]
    if len(keys) != 1:
        problem = f"got {' and '.join(keys)}" if keys else "got none"
        raise ValueError(
            f"exactly one of topic, topic.column and topic.prefix (with jdbc) is required; {problem}"
        )
    return Recommendation()


def _check_columns(name: str, values: Mapping[str, object]) -> Recommendation:
    is_schemaless = values.get("spark.format") == "json" and not values.get("spark.schema")
    if values.get(name) and (is_schemaless or values.get("spark.format") == "text"):
        raise ValueError("it requires spark.schema")
    return check_schema_columns(name, values)


def _check_mode_column(name: str, values: Mapping[str, object]) -> Recommendation:
    kind = name.split(".")[1]
    is_required = values.get("spark.format") == JDBC and kind in str(values.get("jdbc.mode")).split("+")
    if is_required and not values.get(name):
        raise ValueError(f"it is required with jdbc.mode={values.get('jdbc.mode')}")
    return Recommendation(visible=is_required)


_SOURCE: Final = in_group(
    "Source",
    Key(
        name="spark.format",
        type=ConfigType.STRING,
        validator=validate_source_format,
        importance=Importance.HIGH,
        doc="What to read: files in one of Spark's formats, database tables, a Python Data Source, or one of Spark's "
        "streaming formats.",
    ),
    Key(
        name="path",
        type=ConfigType.STRING,
        default=None,
        importance=Importance.HIGH,
        doc="Directory of the files, or a pattern of file names (`*`, `?`, `[…]`, `**`), on a file system that the "
        "worker and Spark's executors share, or in an object store: `s3a://BUCKET/…`. Files whose names start "
        "with `_` or `.` are ignored.",
        recommender=require_all(require_with_formats(FILE_FORMATS), name_key_in_errors(_check_path)),
    ),
    Key(
        name="spark.schema",
        type=ConfigType.STRING,
        default=None,
        validator=validate_ddl,
        importance=Importance.HIGH,
        doc="Columns, in Spark's DDL. Required for csv. Default: json values have no schema; parquet files, orc files "
        "and Python Data Sources have their own.",
        recommender=name_key_in_errors(_check_schema),
    ),
    Key(
        name="spark.python.datasource",
        type=ConfigType.STRING,
        default=None,
        validator=validate_python_class,
        importance=Importance.HIGH,
        doc="Python Data Source with a stream reader, `package.module:Class`. Its package must be installed on the "
        "worker and on Spark's executors, where its code runs.",
        recommender=require_with_formats((PYTHON,)),
    ),
    Key(
        name="spark.poll.interval.ms",
        type=ConfigType.INT,
        default=1000,
        validator=at_least(1),
        importance=Importance.LOW,
        doc="Interval at which an idle task looks for new files, or asks a Python Data Source or a stream for new "
        "data.",
    ),
    Key(
        name="checkpoint.location",
        type=ConfigType.STRING,
        default=None,
        importance=Importance.HIGH,
        doc="Directory in which Spark stores the progress of a stream, on a file system that all workers and Spark's "
        "executors share. Each connector needs a separate directory. Required for streaming formats.",
        recommender=name_key_in_errors(check_stream_checkpoint),
    ),
)

_RECORDS: Final = in_group(
    "Records",
    Key(
        name="topic",
        type=ConfigType.STRING,
        default=None,
        validator=non_empty,
        importance=Importance.HIGH,
        doc="Topic of all records.",
        recommender=name_key_in_errors(_check_topic),
    ),
    Key(
        name="topic.column",
        type=ConfigType.STRING,
        default=None,
        validator=non_empty,
        importance=Importance.MEDIUM,
        doc="Column that contains each record's topic.",
        recommender=name_key_in_errors(_check_columns),
    ),
    Key(
        name="topic.prefix",
        type=ConfigType.STRING,
        default=None,
        validator=non_empty,
        importance=Importance.MEDIUM,
        doc="Prefix of the topic names; the table name follows it.",
        recommender=require_with_formats((), optional=(JDBC,)),
    ),
    Key(
        name="key.columns",
        type=ConfigType.LIST,
        default=(),
        importance=Importance.MEDIUM,
        doc="Columns of the key. One column is the key itself, several columns become a struct. Default: no key.",
        recommender=name_key_in_errors(_check_columns),
    ),
    Key(
        name="value.column",
        type=ConfigType.STRING,
        default=None,
        validator=non_empty,
        importance=Importance.MEDIUM,
        doc="Column of the value. Default: a struct of all columns except those of the key and the topic.",
        recommender=name_key_in_errors(_check_columns),
    ),
)

_FILES: Final = in_group(
    "Files",
    Key(
        name="file.order",
        type=ConfigType.STRING,
        default="name",
        validator=one_of("name", "mtime"),
        importance=Importance.LOW,
        doc="Order in which files are read: by name, or by the time of their last change.",
    ),
    Key(
        name="file.batch.bytes",
        type=ConfigType.LONG,
        default=128 * 1024 * 1024,
        validator=at_least(1),
        importance=Importance.LOW,
        doc="Approximate size of a batch in bytes. A file that must be read as a whole can be larger.",
    ),
)

_TABLES: Final = in_group(
    "JDBC",
    Key(
        name="jdbc.tables",
        type=ConfigType.LIST,
        default=(),
        validator=validate_identifiers,
        importance=Importance.HIGH,
        doc="Tables to read. They are distributed among up to `tasks.max` tasks.",
        recommender=require_with_formats((JDBC,)),
    ),
    Key(
        name="jdbc.mode",
        type=ConfigType.STRING,
        default="incrementing",
        validator=one_of(*MODES),
        importance=Importance.HIGH,
        doc="How new rows are detected: by an incrementing column, by the time of the last change, by both, or not at "
        "all (bulk: the whole table every `jdbc.poll.interval.ms`).",
    ),
    Key(
        name="jdbc.incrementing.column",
        type=ConfigType.STRING,
        default=None,
        validator=validate_identifiers,
        importance=Importance.MEDIUM,
        doc="Column with an integer that is larger in each new row and never null.",
        recommender=name_key_in_errors(_check_mode_column),
    ),
    Key(
        name="jdbc.timestamp.column",
        type=ConfigType.STRING,
        default=None,
        validator=validate_identifiers,
        importance=Importance.MEDIUM,
        doc="Column with the time of a row's last change, never null.",
        recommender=name_key_in_errors(_check_mode_column),
    ),
    Key(
        name="jdbc.poll.interval.ms",
        type=ConfigType.INT,
        default=5000,
        validator=at_least(1),
        importance=Importance.MEDIUM,
        doc="Interval at which an idle task queries the database for new rows; in bulk mode, the interval at which a "
        "table is read.",
    ),
    *TIMEOUTS,
)

SPARK_SOURCE: Final = ConfigDef([*_SOURCE, *_RECORDS, *_FILES, *_TABLES])
