"""The config keys of SparkSink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kraal.config.checks import one_of
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Recommendation, in_group
from kraal.connectors.jdbc.merge import KINDS
from kraal.connectors.jdbc.names import parse_kind
from kraal.connectors.jdbc.timeouts import TIMEOUTS
from kraal.connectors.spark.checks import (
    FILE_FORMATS,
    JDBC,
    OPTION,
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
from kraal.connectors.tables.config import CHANGE_KEYS, find_missing_dead_letters
from kraal.connectors.tables.settings import APPEND, FAIL

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
    return Recommendation(visible=values.get("delivery.guarantee") == EXACTLY_ONCE or is_keyed(values))


def _check_mode(name: str, values: Mapping[str, object]) -> Recommendation:
    """Reject changes by key for other targets than tables, and columns that do not come from the records."""
    is_jdbc = values.get("spark.format") == JDBC
    if values.get(name) not in {None, APPEND}:
        if not is_jdbc:
            raise ValueError(
                f"it is only valid with spark.format {JDBC}, not with {values.get('spark.format')}"
            )
        for other in ("spark.schema", "metadata.columns"):
            if values.get(other):
                raise ValueError(f"the columns are the fields of the records, so {other} must not be set")
    return Recommendation(visible=is_jdbc)


def _show_if_keyed(name: str, values: Mapping[str, object]) -> Recommendation:
    del name
    return Recommendation(visible=is_keyed(values))


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
        doc="Table to write to; Spark creates it if it does not exist.",
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
        "table and the offsets of their records are committed in one transaction. This is always the case with "
        "`write.mode=upsert` and `cdc`.",
        recommender=name_key_in_errors(_check_guarantee),
    ),
    Key(
        name="jdbc.offsets.table",
        type=ConfigType.STRING,
        default="kraal_sink_offsets",
        validator=validate_identifiers,
        importance=Importance.LOW,
        doc="Table, in the same database, that stores the offsets for `delivery.guarantee=exactly_once` and "
        "`write.mode=upsert` and `cdc`; it is created if it does not exist. Several connectors can share it.",
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

_CHANGE_DOCS: Final = {
    "write.mode": "How records change a table of `spark.format=jdbc`. With `append`, each record adds a row. With "
    "`upsert`, a record replaces the row with the same key, and a tombstone deletes it. `cdc` is like `upsert`, for "
    "Debezium's change events, with or without ExtractNewRecordState. `upsert` and `cdc` require PostgreSQL, MySQL or "
    "MariaDB, and values with a schema, whose fields are the columns, and write rows exactly once.",
    "schema.evolution": "What to do with `upsert` and `cdc` if records have fields that the table lacks: `evolve` adds "
    "columns; `fail` fails the task, with an error that names record, column and type; `ignore` leaves out these "
    "values; `dead-letter` sends these records to the dead letter topic. Types of columns are never changed.",
}
_CHANGE_DEFAULTS: Final = {"schema.evolution": FAIL}
"""The defaults that differ from those of IcebergSink and DeltaSink: a database has an administrator."""
_CHANGES: Final = in_group(
    "Changes by key",
    *(
        replace(
            key,
            default=_CHANGE_DEFAULTS.get(key.name, key.default),
            doc=_CHANGE_DOCS.get(key.name, key.doc),
            recommender=name_key_in_errors(_check_mode) if key.name == "write.mode" else _show_if_keyed,
        )
        for key in CHANGE_KEYS
    ),
)

SPARK_SINK: Final = ConfigDef([*_TARGET, *_COLUMNS, *_CHANGES])


def find_conflicts(config: Mapping[str, str | None]) -> dict[str, str]:
    """Return errors of keys that require other keys, by name; `config` is that of the connector and may be invalid."""
    mode = config.get("write.mode") or APPEND
    if mode == APPEND or config.get("spark.format") != JDBC:
        return {}
    url = next((value for key, value in config.items() if key.lower() == f"{OPTION}url" and value), "")
    errors = find_missing_dead_letters(config)
    if url.startswith("jdbc:") and (kind := parse_kind(url)) not in KINDS:
        errors["write.mode"] = (
            f"write.mode={mode} requires PostgreSQL, MySQL or MariaDB, but {OPTION}url starts with jdbc:{kind}:"
        )
        if kind == "mariadb":
            errors["write.mode"] += (
                f". Use jdbc:mysql:…?permitMysqlScheme and set {OPTION}driver=org.mariadb.jdbc.Driver"
            )
    return errors


def is_keyed(parsed: Mapping[str, Any]) -> bool:
    """Return whether the config requires that rows of a table are replaced and deleted by key."""
    return bool(parsed.get("spark.format") == JDBC and parsed.get("write.mode") not in {None, APPEND})


def is_exactly_once(parsed: Mapping[str, Any]) -> bool:
    """Return whether the config requires exactly-once writes to a table, whose offsets are in the same database."""
    is_required = parsed["spark.format"] == JDBC and parsed["delivery.guarantee"] == EXACTLY_ONCE
    return bool(is_required or is_keyed(parsed))


def needs_json_text(parsed: Mapping[str, Any]) -> bool:
    """Return whether schemaless values are needed as JSON text, to parse columns or to write lines."""
    return bool(
        parsed["spark.schema"] or (parsed["spark.format"] == "json" and not parsed["metadata.columns"])
    )
