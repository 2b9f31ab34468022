"""The config keys of IcebergSink and DeltaSink."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from kraal.connectors.tables.layout import IDENTITY, TableLayout, parse_partition_by, parse_sort_by
from kraal.connectors.tables.settings import (
    APPEND,
    DEAD_LETTER,
    EVOLVE,
    MODES,
    POLICIES,
    ChangeSettings,
    WriterSettings,
)
from kraal.connectors.tables.template import TableTemplate
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
    regex,
    rule,
    unless_null,
)

DELETE_MODE: Final = "delete.handling.mode"
DELETE: Final = "delete"
REWRITE: Final = "rewrite"
CATALOG: Final = "iceberg.catalog"
CATALOG_PREFIX: Final = f"{CATALOG}."
TOPIC_REGEX: Final = "table.topic.regex"
ROUTE_FIELD: Final = "table.route.field"
PARTITION_BY: Final = "partition.by"
SORT_BY: Final = "sort.by"
PROPERTIES_PREFIX: Final = "table.properties."
STORAGE_PREFIX: Final = "delta.storage."
CATALOG_TYPES: Final = ("sql", "rest", "hive", "glue")
CATALOG_PACKAGES: Final = {"hive": "thrift", "glue": "boto3"}
"""The packages that types of catalogs require in addition to those of the extra `lake`."""
_MAX_BATCH_RECORDS: Final = 10_000_000
_NAME: Final = re.compile(r"[^.\s/\\]+(\.[^.\s/\\]+)+")
_URL_SCHEMES: Final = ("file://", "s3://", "s3a://")


@rule("`NAMESPACE.TABLE`; a namespace may have several parts")
def validate_table_name(name: str, value: object) -> str | None:
    """Require a namespace and a table."""
    if value is None or _NAME.fullmatch(TableTemplate(str(value)).make_example()):
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


def _find_error(parse: Callable[[str], object], name: str, value: object) -> str | None:
    """Return the error message for a value that `parse` refuses with ValueError."""
    try:
        parse(str(value or ""))
    except ValueError as exc:
        return f"Invalid value {value} for configuration {name}: {exc}"
    return None


@rule("a list of columns and transforms")
def validate_partition_by(name: str, value: object) -> str | None:
    """Require columns, or Iceberg's transforms of columns."""
    return _find_error(parse_partition_by, name, value)


@rule("a list of columns")
def validate_partition_columns(name: str, value: object) -> str | None:
    """Require columns: Delta has no transforms."""
    try:
        terms = parse_partition_by(str(value or ""))
    except ValueError as exc:
        return f"Invalid value {value} for configuration {name}: {exc}"
    if any(term.transform != IDENTITY for term in terms):
        return (
            f"Invalid value {value} for configuration {name}: a Delta table is partitioned by columns only. Add a "
            "column with the transformed value at the source"
        )
    return None


@rule("a list of columns, each optionally with `asc` or `desc`")
def validate_sort_by(name: str, value: object) -> str | None:
    """Require columns."""
    return _find_error(parse_sort_by, name, value)


def _require_warehouse(name: str, values: Mapping[str, object]) -> Recommendation:
    if values.get(f"{CATALOG_PREFIX}type") == "sql" and not values.get(name):
        raise ValueError(
            f"Missing configuration {name}: a catalog of type sql requires the location of its tables, such as "
            "file:///lake"
        )
    return Recommendation()


def _require_uri(name: str, values: Mapping[str, object]) -> Recommendation:
    catalog_type = values.get(f"{CATALOG_PREFIX}type")
    if catalog_type not in {None, "glue"} and not values.get(name):
        raise ValueError(f"Missing configuration {name}: a catalog of type {catalog_type} requires its URL")
    return Recommendation()


_COMMON_KEYS: Final = (
    Key(
        name=TOPIC_REGEX,
        type=ConfigType.STRING,
        default=None,
        validator=unless_null(regex),
        importance=Importance.LOW,
        doc="Java regular expression that matches the whole name of each topic. In `table`, `${1}` stands for its "
        "first group.",
    ),
    Key(
        name=ROUTE_FIELD,
        type=ConfigType.STRING,
        default=None,
        importance=Importance.LOW,
        doc="Field whose value replaces `${route}` in `table`, so that the records of a topic belong to several "
        "tables: a field of the value with `append`, otherwise a field of the key.",
    ),
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
        name=DELETE_MODE,
        type=ConfigType.STRING,
        default=DELETE,
        validator=one_of(DELETE, REWRITE),
        importance=Importance.MEDIUM,
        doc="How `upsert` and `cdc` delete a row. `delete` removes it; `rewrite` keeps it, and sets its column "
        "`__deleted` to true. All other rows that are written have the value false.",
    ),
    Key(
        name="schema.evolution",
        type=ConfigType.STRING,
        default=EVOLVE,
        validator=one_of(*POLICIES),
        importance=Importance.MEDIUM,
        doc="What to do if records have fields that the table lacks, or wider types: `evolve` changes the table; "
        "`fail` fails the task, with an error that names record, column and types; `ignore` leaves out these values; "
        "`dead-letter` sends these records to the dead letter topic. Only `evolve` changes the schema of a table that "
        "exists.",
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
        name="commit.bytes",
        type=ConfigType.LONG,
        default=128 * 1024 * 1024,
        validator=at_least(1),
        importance=Importance.MEDIUM,
        doc="Approximate maximum size of a commit's records in Kafka, in bytes, uncompressed and estimated from "
        "earlier records. It has the same effect as `commit.records`: whichever limit is lower applies.",
    ),
    Key(
        name="maintenance.interval.ms",
        type=ConfigType.LONG,
        default=0,
        validator=at_least(0),
        importance=Importance.LOW,
        doc="Minimum time between two maintenance runs of a table, in milliseconds, which compact small files and "
        "remove old versions; 0 for no maintenance.",
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

CHANGE_KEYS: Final = tuple(
    key
    for key in _COMMON_KEYS
    if key.name in {"write.mode", "id.columns", "schema.evolution", "unavailable.value.placeholder"}
)
"""The keys that determine the changes of tables of all kinds."""


def _make_table_keys(check: Check, doc: str, partition_check: Check, partition_doc: str) -> list[Key]:
    """Return the keys that both connectors have."""
    return [
        Key(
            name="table",
            type=ConfigType.STRING,
            validator=all_of(non_empty, check),
            importance=Importance.HIGH,
            doc=f"{doc} It is created if it does not exist. `${{topic}}` stands for the topic; see `{TOPIC_REGEX}` and "
            f"`{ROUTE_FIELD}` for other parts of a name.",
        ),
        *_COMMON_KEYS,
        Key(
            name=PARTITION_BY,
            type=ConfigType.STRING,
            default="",
            validator=partition_check,
            importance=Importance.MEDIUM,
            doc=f"Comma-separated list of values by which a table is partitioned when it is created: {partition_doc}. "
            f"Keys that start with `{PROPERTIES_PREFIX}` are properties of a table that is created, without this "
            "prefix.",
        ),
    ]


ICEBERG_SINK: Final = ConfigDef(
    [
        *_make_table_keys(
            validate_table_name,
            "Table to write to, with its namespace, such as `shop.orders`.",
            validate_partition_by,
            "columns, or `year`, `month`, `day` or `hour` of a column, or `bucket` or `truncate` of a column with a "
            "number, such as `country, day(created_at), bucket(id, 16)`",
        ),
        Key(
            name=SORT_BY,
            type=ConfigType.STRING,
            default="",
            validator=validate_sort_by,
            importance=Importance.LOW,
            doc="Comma-separated list of columns by which the rows of each file are sorted, such as `id, at desc`. "
            "It becomes the sort order of a table that is created. Null comes last.",
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
            default=None,
            validator=unless_null(non_empty),
            importance=Importance.HIGH,
            recommender=_require_uri,
            doc="URL of the catalog; required unless the type is `glue`. For `sql`, the URL of a database as in "
            "SQLAlchemy, such as `sqlite:////lake/catalog.db`; for `hive`, such as `thrift://metastore:9083`. All "
            "other keys that start with `iceberg.catalog.` are passed on to pyiceberg without this prefix, such as "
            "`iceberg.catalog.s3.endpoint`.",
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
        validate_partition_columns,
        "columns, such as `country, status`",
    )
)


def find_conflicts(config: Mapping[str, str | None]) -> dict[str, str]:
    """Return errors of keys that require other keys, by name; `config` is that of the connector and may be invalid."""
    errors = find_missing_dead_letters(config)
    try:
        make_template(config)
    except ValueError as exc:
        errors["table"] = f"Invalid value {config.get('table')} for configuration table: {exc}"
    if config.get(DELETE_MODE) == REWRITE and config.get("write.mode", APPEND) == APPEND:
        errors[DELETE_MODE] = f"{DELETE_MODE}={REWRITE} requires write.mode=upsert or cdc"
    return errors


def find_missing_dead_letters(config: Mapping[str, str | None]) -> dict[str, str]:
    """Return the error of `schema.evolution` if it requires a dead letter topic and there is none."""
    if config.get("schema.evolution") != DEAD_LETTER or (
        config.get("errors.tolerance") == "all" and config.get("errors.deadletterqueue.topic.name")
    ):
        return {}
    message = (
        f"schema.evolution={DEAD_LETTER} requires errors.tolerance=all and errors.deadletterqueue.topic.name"
    )
    return {"schema.evolution": message}


def make_writer_settings(parsed: Mapping[str, Any], *, is_database: bool = False) -> WriterSettings:
    """Return the settings of the core for a parsed config; `is_database` is False for Iceberg and Delta."""
    return WriterSettings(
        changes=ChangeSettings(
            mode=str(parsed["write.mode"]),
            id_columns=tuple(parsed["id.columns"]),
            placeholder=str(parsed["unavailable.value.placeholder"]),
            keeps_missing=is_database,
            requires_schema=is_database,
            marks_deletes=parsed.get(DELETE_MODE) == REWRITE,
        ),
        evolution=str(parsed["schema.evolution"]),
    )


def make_template(config: Mapping[str, str | None]) -> TableTemplate:
    """Return the names of the tables. Raises ValueError."""
    return TableTemplate.parse(
        config.get("table") or "", config.get(TOPIC_REGEX) or None, config.get(ROUTE_FIELD) or None
    )


def make_layout(config: Mapping[str, str]) -> TableLayout:
    """Return the layout of new tables for a valid config."""
    return TableLayout(
        partition_by=parse_partition_by(config.get(PARTITION_BY, "")),
        sort_by=parse_sort_by(config.get(SORT_BY, "")),
        properties=select_prefix(config, PROPERTIES_PREFIX),
    )


def select_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the entries whose keys start with a prefix, without the prefix."""
    return {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
