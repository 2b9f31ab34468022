"""Quotes table and column names for SQL, to prevent SQL injection.

A config may use any kind of quotes; they are converted to the quotes of the database, where other quotes may delimit a
string literal. MySQL, for example, reads "name" as a literal in which a backslash escapes the closing quote. Spark
quotes column names as its dialect requires, and doubles quotes within names. Names that cannot be quoted
safely are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PART: Final = re.compile(
    r'"(?P<double>[^"]*)"|`(?P<back>[^`]*)`|\[(?P<bracket>[^\]]*)\]|(?P<bare>[^."`\[\]]+)'
)
_BACKTICK_KINDS: Final = frozenset({"mysql", "mariadb", "databricks", "hive2", "clickhouse"})
_BRACKET_KINDS: Final = frozenset({"sqlserver", "sqlite"})
_LITERAL_BACKSLASH_KINDS: Final = frozenset(
    {"postgresql", "mysql", "mariadb", "sqlserver", "oracle", "db2", "h2", "sqlite", "derby", "snowflake"}
)
"""Databases in which a backslash has no special meaning in quoted names."""


def parse_kind(url: str) -> str:
    """Return the kind of database: the subprotocol of a JDBC URL, such as `postgresql`."""
    return url.split(":")[1]


def get_database_kind(options: Mapping[str, str]) -> str:
    """Return the kind of database for options of Spark's JDBC reader or writer; their names are case-insensitive."""
    return parse_kind(next(value for key, value in options.items() if key.lower() == "url"))


def check_name(kind: str, name: str) -> None:
    """Raise ValueError for a name that cannot be quoted safely in this database."""
    if "\x00" in name or ("\\" in name and kind not in _LITERAL_BACKSLASH_KINDS):
        raise ValueError(
            f"the name {name!r} cannot be quoted safely: in jdbc:{kind}: a backslash may escape the next quote, and a "
            "NUL may end the name. Rename it, for example with the transform ReplaceField"
        )


def quote(kind: str, name: str) -> str:
    """Quote a name, doubling quotes within it. Raises the errors of `check_name`."""
    check_name(kind, name)
    mark = "`" if kind in _BACKTICK_KINDS else '"'
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def to_sql(kind: str, name: str) -> str:
    """Convert a name from a config, with or without quotes and schema, to SQL. Raises the errors of `check_name`."""
    return ".".join(_quote_part(kind, part) for part in _PART.finditer(name))


def split_name(name: str) -> tuple[str | None, str]:
    """Return the part before the last dot of a name as in a config, or None, and the last part; without quotes."""
    parts = [next(text for text in part.groups() if text is not None) for part in _PART.finditer(name)]
    return ".".join(parts[:-1]) or None, parts[-1]


def _quote_part(kind: str, part: re.Match[str]) -> str:
    if part["bare"] is not None:
        return part[0]
    if part["bracket"] is not None and kind in _BRACKET_KINDS:
        check_name(kind, part["bracket"])
        return part[0]
    return quote(kind, next(name for name in part.groups() if name is not None))
