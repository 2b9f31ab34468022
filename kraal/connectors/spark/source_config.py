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
    advised,
    also,
    ddl,
    folder_to_read,
    identifiers,
    known_columns,
    needed_by,
    python_class,
    source_format,
    stream_checkpoint,
)

MODES: Final = ("incrementing", "timestamp", "timestamp+incrementing", "bulk")


def _path(name: str, values: Mapping[str, object]) -> Recommendation:
    if values.get(name):
        folder_to_read(str(values[name]))
    return Recommendation()


def _schema(name: str, values: Mapping[str, object]) -> Recommendation:
    chosen = values.get("spark.format")
    if chosen == "csv" and not values.get(name):
        raise ValueError("it is required with spark.format=csv")
    if values.get(name) and chosen in {"text", JDBC}:
        raise ValueError(f"spark.format={chosen} has a schema of its own")
    return Recommendation()


def _topic(name: str, values: Mapping[str, object]) -> Recommendation:
    del name  # three keys share the message
    given = [key for key in ("topic", "topic.column", "topic.prefix") if values.get(key)]
    if len(given) != 1:
        found = f"found {' and '.join(given)}" if given else "found none"
        raise ValueError(
            f"exactly one of topic, topic.column and topic.prefix (with jdbc) is needed; {found}"
        )
    return Recommendation()


def _columns(name: str, values: Mapping[str, object]) -> Recommendation:
    schemaless = values.get("spark.format") == "json" and not values.get("spark.schema")
    if values.get(name) and (schemaless or values.get("spark.format") == "text"):
        raise ValueError("without spark.schema there are no columns to name")
    return known_columns(name, values)


def _column_of_mode(name: str, values: Mapping[str, object]) -> Recommendation:
    kind = name.split(".")[1]
    wanted = values.get("spark.format") == JDBC and kind in str(values.get("jdbc.mode")).split("+")
    if wanted and not values.get(name):
        raise ValueError(f"it is required with jdbc.mode={values.get('jdbc.mode')}")
    return Recommendation(visible=wanted)


_SOURCE: Final = in_group(
    "Source",
    Key(
        name="spark.format",
        type=ConfigType.STRING,
        validator=source_format,
        importance=Importance.HIGH,
        doc="What is read: files of a format of Spark's, tables of a database, a Python Data Source, or a format "
        "that Spark has only as a stream.",
    ),
    Key(
        name="path",
        type=ConfigType.STRING,
        default=None,
        importance=Importance.HIGH,
        doc="A directory, whose files are read, or a pattern of files (`*`, `?`, `[…]`, `**`), on a file system "
        "that the worker and Spark's executors see, or in an object store: `s3a://BUCKET/…`. Files whose names "
        "begin with `_` or `.` are passed over.",
        recommender=also(needed_by(FILE_FORMATS), advised(_path)),
    ),
    Key(
        name="spark.schema",
        type=ConfigType.STRING,
        default=None,
        validator=ddl,
        importance=Importance.HIGH,
        doc="The columns, in Spark's DDL. Required for csv. Without it json values have no schema, and parquet and "
        "orc files, and Python Data Sources, have their own.",
        recommender=advised(_schema),
    ),
    Key(
        name="spark.python.datasource",
        type=ConfigType.STRING,
        default=None,
        validator=python_class,
        importance=Importance.HIGH,
        doc="The Python Data Source with a stream reader, `package.module:Class`. Its package must be installed "
        "where the worker and Spark's executors run; its code runs there.",
        recommender=needed_by((PYTHON,)),
    ),
    Key(
        name="spark.poll.interval.ms",
        type=ConfigType.INT,
        default=1000,
        validator=at_least(1),
        importance=Importance.LOW,
        doc="How often an idle task looks for new files, asks a Python Data Source for its offset, or a stream for "
        "what is new.",
    ),
    Key(
        name="checkpoint.location",
        type=ConfigType.STRING,
        default=None,
        importance=Importance.HIGH,
        doc="A directory of this connector's alone where Spark keeps how far a stream is read, on a file system "
        "that every worker and Spark's executors see. Required with a format that is only a stream.",
        recommender=advised(stream_checkpoint),
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
        doc="The topic of all records.",
        recommender=advised(_topic),
    ),
    Key(
        name="topic.column",
        type=ConfigType.STRING,
        default=None,
        validator=non_empty,
        importance=Importance.MEDIUM,
        doc="The column that holds each record's topic.",
        recommender=advised(_columns),
    ),
    Key(
        name="topic.prefix",
        type=ConfigType.STRING,
        default=None,
        validator=non_empty,
        importance=Importance.MEDIUM,
        doc="What stands before a table's name in the topic of its rows.",
        recommender=needed_by((), optional=(JDBC,)),
    ),
    Key(
        name="key.columns",
        type=ConfigType.LIST,
        default=(),
        importance=Importance.MEDIUM,
        doc="The columns of records' keys. One is the key itself, several are a struct. By default "
        "there is no key.",
        recommender=advised(_columns),
    ),
    Key(
        name="value.column",
        type=ConfigType.STRING,
        default=None,
        validator=non_empty,
        importance=Importance.MEDIUM,
        doc="The column that is the value. Without it the value is a struct of all columns but those of "
        "key and topic.",
        recommender=advised(_columns),
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
        doc="In which order files that wait are read: by name, or by the time of their last change.",
    ),
    Key(
        name="file.batch.bytes",
        type=ConfigType.LONG,
        default=128 * 1024 * 1024,
        validator=at_least(1),
        importance=Importance.LOW,
        doc="How many bytes of files one batch has, about. Files that must be read in one piece may be larger.",
    ),
)

_TABLES: Final = in_group(
    "JDBC",
    Key(
        name="jdbc.tables",
        type=ConfigType.LIST,
        default=(),
        validator=identifiers,
        importance=Importance.HIGH,
        doc="The tables to read. They are shared by up to `tasks.max` tasks.",
        recommender=needed_by((JDBC,)),
    ),
    Key(
        name="jdbc.mode",
        type=ConfigType.STRING,
        default="incrementing",
        validator=one_of(*MODES),
        importance=Importance.HIGH,
        doc="How new rows are known: by a column that grows, by a time of change, by both, or not at all (bulk: "
        "the whole table every `jdbc.poll.interval.ms`).",
    ),
    Key(
        name="jdbc.incrementing.column",
        type=ConfigType.STRING,
        default=None,
        validator=identifiers,
        importance=Importance.MEDIUM,
        doc="A whole number that is larger in each new row, and never null.",
        recommender=advised(_column_of_mode),
    ),
    Key(
        name="jdbc.timestamp.column",
        type=ConfigType.STRING,
        default=None,
        validator=identifiers,
        importance=Importance.MEDIUM,
        doc="The time of a row's last change, never null.",
        recommender=advised(_column_of_mode),
    ),
    Key(
        name="jdbc.poll.interval.ms",
        type=ConfigType.INT,
        default=5000,
        validator=at_least(1),
        importance=Importance.MEDIUM,
        doc="How often an idle task asks the database for new rows; in bulk mode, how often a table is read.",
    ),
    *TIMEOUTS,
)

SPARK_SOURCE: Final = ConfigDef([*_SOURCE, *_RECORDS, *_FILES, *_TABLES])
