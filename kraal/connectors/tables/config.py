"""The config keys of IcebergSink and DeltaSink."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from kraal.connectors.tables.changes import APPEND, MODES, ChangeSettings
from kraal.connectors.tables.evolution import EVOLVE, POLICIES
from kraal.connectors.tables.writer import WriterSettings
from kraal.plugins.api import (
    Check,
    ConfigDef,
    ConfigType,
    Importance,
    Key,
    Recommendation,
    all_of,
    at_least,
    between,
    distinct_entries,
    non_empty,
    one_of,
    rule,
)

CATALOG: Final = "iceberg.catalog"
CATALOG_PREFIX: Final = f"{CATALOG}."
STORAGE_PREFIX: Final = "delta.storage."
CATALOG_TYPES: Final = ("sql", "rest")
_MAX_BATCH_RECORDS: Final = 10_000_000
_NAME: Final = re.compile(r"[^.\s/\\]+(\.[^.\s/\\]+)+")
_URL_SCHEMES: Final = ("file://", "s3://", "s3a://")


@rule("`NAMESPACE.TABLE`; a namespace may have several parts")
def validate_table_name(name: str, value: object) -> str | None:
    """Require a namespace and a table."""
    if value is None or _NAME.fullmatch(str(value)):
        return None
    return f"Invalid value {value} for configuration {name}: expected NAMESPACE.TABLE, such as shop.orders"


@rule("an absolute path, or a URL that starts with `file://`, `s3://` or `s3a://`")
def validate_location(name: str, value: object) -> str | None:
    """Require a path that does not depend on the worker's directory."""
    text = str(value)
    if value is None or PurePosixPath(text).is_absolute() or text.startswith(_URL_SCHEMES):
        return None
    return (
        f"Invalid value {value} for configuration {name}: expected an absolute path, such as /lake/orders, or a URL "
        f"that starts with {', '.join(_URL_SCHEMES)}"
    )


def _require_warehouse(name: str, values: Mapping[str, object]) -> Recommendation:
    if values.get(f"{CATALOG_PREFIX}type") == "sql" and not values.get(name):
        raise ValueError(
            f"Missing configuration {name}: a catalog of type sql requires the location of its tables, such as "
            "file:///lake"
        )
    return Recommendation()


_COMMON_KEYS: Final = (
    Key(
        name="write.mode",
        type=ConfigType.STRING,
        default=APPEND,
        validator=one_of(*MODES),
        importance=Importance.HIGH,
        doc="How records change the table. With `append`, each record adds a row. With `upsert`, a record replaces the "
        "row with the same key, and a tombstone deletes it. `cdc` is like `upsert`, for Debezium's change events, with "
        "or without ExtractNewRecordState.",
    ),
    Key(
        name="id.columns",
        type=ConfigType.LIST,
        default=(),
        validator=distinct_entries,
        importance=Importance.HIGH,
        doc="Columns that identify a row, for `upsert` and `cdc`. Default: the fields of the record's key.",
    ),
    Key(
        name="schema.evolution",
        type=ConfigType.STRING,
        default=EVOLVE,
        validator=one_of(*POLICIES),
        importance=Importance.MEDIUM,
        doc="What to do if records have fields that the table lacks, or wider types: `evolve` changes the table; "
        "`fail` fails the task, with an error that names record, column and types.",
    ),
    Key(
        name="commit.interval.ms",
        type=ConfigType.LONG,
        default=10_000,
        validator=at_least(0),
        importance=Importance.MEDIUM,
        doc="Minimum time between the starts of two commits, in milliseconds. Records wait in Kafka meanwhile.",
    ),
    Key(
        name="commit.records",
        type=ConfigType.INT,
        default=100_000,
        validator=between(1, _MAX_BATCH_RECORDS),
        importance=Importance.MEDIUM,
        doc="Maximum number of records in a commit. If as many records are available, a commit does not wait for "
        "`commit.interval.ms`. The worker holds the records of a commit in memory.",
    ),
    Key(
        name="partition.by",
        type=ConfigType.LIST,
        default=(),
        validator=distinct_entries,
        importance=Importance.MEDIUM,
        doc="Columns by which a table is partitioned when it is created.",
    ),
    Key(
        name="unavailable.value.placeholder",
        type=ConfigType.STRING,
        default=ChangeSettings(mode=APPEND).placeholder,
        importance=Importance.LOW,
        doc="Value that Debezium sends for a column that has not changed and is not in its log. With `cdc`, such a "
        "column keeps its former value.",
    ),
)


def _make_table_keys(check: Check, doc: str) -> list[Key]:
    """Return the keys that both connectors have."""
    return [
        Key(
            name="table",
            type=ConfigType.STRING,
            validator=all_of(non_empty, check),
            importance=Importance.HIGH,
            doc=f"{doc} It is created if it does not exist.",
        ),
        *_COMMON_KEYS,
    ]


ICEBERG_SINK: Final = ConfigDef(
    [
        *_make_table_keys(
            validate_table_name, "Table to write to, with its namespace, such as `shop.orders`."
        ),
        Key(
            name=CATALOG,
            type=ConfigType.STRING,
            default="iceberg",
            validator=non_empty,
            importance=Importance.LOW,
            doc="Name of the catalog. A catalog of type `sql` can have several in one database.",
        ),
        Key(
            name=f"{CATALOG_PREFIX}type",
            type=ConfigType.STRING,
            validator=one_of(*CATALOG_TYPES),
            importance=Importance.HIGH,
            doc="Type of the catalog.",
        ),
        Key(
            name=f"{CATALOG_PREFIX}uri",
            type=ConfigType.STRING,
            validator=non_empty,
            importance=Importance.HIGH,
            doc="URL of the catalog: for `sql`, that of a database as in SQLAlchemy, such as "
            "`sqlite:////lake/catalog.db`. All other keys that start with `iceberg.catalog.` are passed on to "
            "pyiceberg without this prefix, such as `iceberg.catalog.s3.endpoint`.",
        ),
        Key(
            name=f"{CATALOG_PREFIX}warehouse",
            type=ConfigType.STRING,
            default=None,
            importance=Importance.HIGH,
            doc="Location of new tables; required for `sql`.",
            recommender=_require_warehouse,
        ),
    ]
)

DELTA_SINK: Final = ConfigDef(
    _make_table_keys(
        validate_location,
        "Path or URL of the table, such as `/lake/orders`. Keys that start with `delta.storage.` are passed on to "
        "deltalake as storage options, without this prefix.",
    )
)


def make_writer_settings(parsed: Mapping[str, Any]) -> WriterSettings:
    """Return the settings of the core for a parsed config."""
    return WriterSettings(
        changes=ChangeSettings(
            mode=str(parsed["write.mode"]),
            id_columns=tuple(parsed["id.columns"]),
            placeholder=str(parsed["unavailable.value.placeholder"]),
        ),
        evolution=str(parsed["schema.evolution"]),
    )


def select_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the entries whose keys start with a prefix, without the prefix."""
    return {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
