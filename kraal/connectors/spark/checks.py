"""Validators for the config keys of SparkSource and SparkSink.

They do not use Spark, because REST requests wait for them.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from kraal.config.checks import Rule, rule
from kraal.config.key import Recommendation, Recommender
from kraal.config.values import as_strings, invalid
from kraal.connectors.spark.ddl import parse_columns
from kraal.connectors.spark.object_stores import is_object_path, normalize_object_url

FILE_FORMATS: Final = ("json", "csv", "parquet", "orc", "text")
JDBC: Final = "jdbc"
PYTHON: Final = "python"
_FORMATS: Final = (*FILE_FORMATS, JDBC, PYTHON)
_STREAM_FORMAT: Final = re.compile(r"[a-z][a-z0-9_.-]*")
_UNSUPPORTED_BATCH_FORMATS: Final = frozenset({"avro", "binaryfile", "delta", "hudi", "iceberg", "xml"})
"""Formats that Spark can also read as batches; not supported yet."""
_UNSUPPORTED_STREAMS: Final = {
    "kafka": "MirrorSource copies topics",
    "socket": "it cannot replay records, so a restart would lose some",
}
OPTION: Final = "spark.option."
_ALLOWED_PATHS: Final = "use a path of a mounted file system, or a file: or s3a: URL"
_ALLOWED_LOCAL_PATHS: Final = "use a path of a mounted file system, or a file: URL"

_IDENTIFIER: Final = r'(?:[A-Za-z_][\w$#]*|"[^"\x00-\x1f;]+"|`[^`\x00-\x1f;]+`|\[[^\]\x00-\x1f;]+\])'
_TABLE: Final = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER}){{0,2}}")
_CLASS: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def is_stream(spark_format: str) -> bool:
    """Return whether a format is read as a stream: any well-formed name that is not listed in this module.

    Does not check that the format is installed.
    """
    other_formats = (*_FORMATS, *_UNSUPPORTED_BATCH_FORMATS, *_UNSUPPORTED_STREAMS)
    return _STREAM_FORMAT.fullmatch(spark_format) is not None and spark_format not in other_formats


@rule(
    f"{', '.join(f'`{item}`' for item in _FORMATS)}, or the name of one of Spark's streaming formats, such as `rate`"
)
def validate_source_format(name: str, value: object) -> str | None:
    """Require a format that a source can read; does not check that a stream-only format is installed."""
    spark_format = str(value)
    if spark_format in _FORMATS or is_stream(spark_format):
        return None
    reason = _UNSUPPORTED_STREAMS.get(spark_format)
    if reason is not None:
        return invalid(name, value, f"{spark_format} is not supported: {reason}")
    return invalid(
        name,
        value,
        f"String must be one of: {', '.join(_FORMATS)}, or a stream-only format, such as rate",
    )


def check_stream_checkpoint(name: str, values: Mapping[str, object]) -> Recommendation:
    """Require a writable folder for a stream, and no value for other formats."""
    spark_format, value = str(values.get("spark.format")), values.get(name)
    is_required = is_stream(spark_format)
    if is_required and not value:
        raise ValueError(f"it is required with spark.format={spark_format}, which is read as a stream")
    if value and spark_format in _FORMATS:
        raise ValueError(f"it is only valid with stream-only formats, not with {spark_format}")
    if is_required:
        _check_writable(Path(parse_local_path(str(value), allowed=_ALLOWED_LOCAL_PATHS)))
    return Recommendation(visible=is_required)


@rule("a schema in Spark's DDL, such as `id BIGINT NOT NULL, name STRING`")
def validate_ddl(name: str, value: object) -> str | None:
    """Require a schema in DDL; null is valid."""
    if value is None:
        return None
    try:
        parse_columns(str(value))
    except ValueError as exc:
        return invalid(name, value, f"it is not a schema in Spark's DDL: {exc}")
    return None


@rule(
    "names of tables or columns, such as `schema.table`, optionally in the quotes of the database; no expressions"
)
def validate_identifiers(name: str, value: object) -> str | None:
    """Require SQL identifiers, since they become part of queries; null and an empty list are valid."""
    for identifier in as_strings(value) if not isinstance(value, str) else (value,):
        if not _TABLE.fullmatch(identifier):
            return invalid(
                name,
                value,
                f"{identifier!r} is not a valid table or column name; names with special characters must be quoted",
            )
    return None


@rule("`package.module:Class`, of an installed package")
def validate_python_class(name: str, value: object) -> str | None:
    """Require a class of an installed package, without importing it; null is valid."""
    if value is None:
        return None
    if not _CLASS.fullmatch(str(value)):
        return invalid(name, value, "it must be package.module:Class")
    package = str(value).partition(":")[0].partition(".")[0]
    try:
        exists = importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        exists = False
    return None if exists else invalid(name, value, f"no package {package} is installed on this worker")


def distinct_subset_of(*allowed: str) -> Rule:
    """Require a list of distinct entries, each one of `allowed`."""

    @rule("some of " + ", ".join(f"`{entry}`" for entry in allowed))
    def check(name: str, value: object) -> str | None:
        entries = as_strings(value)
        unknown_entries = [entry for entry in entries if entry not in allowed]
        if unknown_entries or len(set(entries)) < len(entries):
            return invalid(name, value, f"Entries must be distinct, and each one of: {', '.join(allowed)}")
        return None

    return check


def parse_local_path(text: str, *, allowed: str = _ALLOWED_PATHS) -> str:
    """Convert a path or a `file:` URL to a path. Raises ValueError for other schemes and relative paths.

    `allowed` describes the allowed forms in the error.
    """
    path = re.sub(r"^file:(?://(?=/))?", "", text)
    scheme = re.match(r"[A-Za-z][\w+.-]*:", path)
    if scheme:
        raise ValueError(f"the scheme {scheme[0]} is not supported; {allowed}")
    if not path.startswith("/"):
        raise ValueError("it must be an absolute path")
    return path


def list_paths(config: Mapping[str, str], *keys: str) -> dict[str, str]:
    """Return the values of these keys that are paths of a mounted file system; invalid ones are skipped."""
    paths = {}
    for key in keys:
        text = config.get(key, "")
        if text and not is_object_path(text):
            with suppress(ValueError):
                paths[key] = parse_local_path(text)
    return paths


def check_readable_folder(text: str) -> None:
    """Raise ValueError unless `text` is a folder that can be listed, or a pattern or a file in such a folder.

    For object stores, check only the syntax and that Spark has the jars, without accessing the store.
    """
    if is_object_path(text):
        normalize_object_url(text)
        return
    path = parse_local_path(text)
    if not Path(path).is_dir():
        parts = path.split("/")
        first_pattern_index = next(
            (i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1
        )
        path = "/".join(parts[:first_pattern_index]) or "/"
    _check_access(path, os.R_OK | os.X_OK, "read")


def check_writable_folder(text: str) -> None:
    """Raise ValueError unless the folder is writable or can be created. Object stores: see `check_readable_folder`."""
    if is_object_path(text):
        normalize_object_url(text)
        return
    _check_writable(Path(parse_local_path(text)))


def _check_writable(path: Path) -> None:
    while not path.exists() and path != path.parent:
        path = path.parent
    _check_access(str(path), os.W_OK | os.X_OK, "written to")


def _check_access(path: str, mode: int, verb: str) -> None:
    if not Path(path).exists():
        raise ValueError(f"{path} does not exist on this worker")
    if not Path(path).is_dir():
        raise ValueError(f"{path} is not a directory")
    if not os.access(path, mode):
        raise ValueError(f"{path} cannot be {verb} by this worker")


def name_key_in_errors(check: Recommender) -> Recommender:
    """Wrap `check` so that its errors name the key and the value."""

    def recommend(name: str, values: Mapping[str, object]) -> Recommendation:
        try:
            return check(name, values)
        except ValueError as exc:
            raise ValueError(invalid(name, values.get(name), str(exc))) from exc

    return recommend


def require_with_formats(formats: tuple[str, ...], *, optional: tuple[str, ...] = ()) -> Recommender:
    """Require a value for `formats`; reject a value for all other formats except `optional`."""

    def check(name: str, values: Mapping[str, object]) -> Recommendation:
        spark_format, is_set = str(values.get("spark.format")), bool(values.get(name))
        if spark_format in formats and not is_set:
            raise ValueError(f"it is required with spark.format={spark_format}")
        is_known = spark_format in _FORMATS or ("checkpoint.location" in values and is_stream(spark_format))
        if is_set and is_known and spark_format not in (*formats, *optional):
            raise ValueError(
                f"it is only valid with spark.format {', '.join((*formats, *optional))}, not with {spark_format}"
            )
        return Recommendation(visible=spark_format in (*formats, *optional))

    return name_key_in_errors(check)


def require_all(first: Recommender, *more: Recommender) -> Recommender:
    """Combine recommenders: all must accept the value; the first determines the recommendation."""

    def check(name: str, values: Mapping[str, object]) -> Recommendation:
        recommendation = first(name, values)
        for other in more:
            other(name, values)
        return recommendation

    return check


def check_schema_columns(name: str, values: Mapping[str, object]) -> Recommendation:
    """Require the columns to be in `spark.schema` if it is set and valid."""
    value = values.get(name)
    names = (value,) if isinstance(value, str) else as_strings(value)
    try:
        columns = parse_columns(str(values.get("spark.schema") or ""))
    except ValueError:
        return Recommendation()
    unknown_columns = [column for column in names if column not in columns]
    if unknown_columns:
        raise ValueError(
            f"spark.schema has no column {unknown_columns[0]}; its columns are {', '.join(columns)}"
        )
    return Recommendation(values=tuple(columns))


def parse_options(config: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark: the keys that start with `spark.option.`, without this prefix.

    Raises ValueError for options that contain SQL or replace a config key.
    """
    options = {key.removeprefix(OPTION): value for key, value in config.items() if key.startswith(OPTION)}
    for key in options:
        if key.lower() in _REJECTED_OPTIONS:
            raise ValueError(f"the option {OPTION}{key} is not allowed: {_REJECTED_OPTIONS[key.lower()]}")
    return options


_SQL_REASON: Final = "configs must not contain SQL"
_REJECTED_OPTIONS: Final = {
    "path": "use the key path",
    "paths": "use the key path",
    "query": _SQL_REASON,
    "preparequery": _SQL_REASON,
    "sessioninitstatement": _SQL_REASON,
    "dbtable": "use jdbc.tables for a source, jdbc.table for a sink",
    "createtableoptions": _SQL_REASON,
}
