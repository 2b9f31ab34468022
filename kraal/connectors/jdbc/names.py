"""Quoting of table and column names in the database's quotes, safe against names that end the quotes.

Names that a config writes in any kind of quotes are converted to the database's own quotes, because another kind may
delimit a string literal there: MySQL reads "name" as one, in which a backslash escapes the closing quote. Spark quotes
the columns that it writes in its dialect's quotes, and doubles these within names. Names that cannot be quoted safely
are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_PART: Final = re.compile(
    r'"(?P<double>[^"]*)"|`(?P<back>[^`]*)`|\[(?P<bracket>[^\]]*)\]|(?P<bare>[^."`\[\]]+)'
)
_BACKTICKS: Final = frozenset({"mysql", "mariadb", "databricks", "hive2", "clickhouse"})
_BRACKETS: Final = frozenset({"sqlserver", "sqlite"})
_LITERAL: Final = frozenset(
    {"postgresql", "mysql", "mariadb", "sqlserver", "oracle", "db2", "h2", "sqlite", "derby", "snowflake"}
)
"""Databases in which a backslash has no special meaning in quoted names."""


def parse_kind(url: str) -> str:
    """Return the kind of database: the part of a URL after `jdbc:`."""
    return url.split(":")[1]


def address_kind(options: Mapping[str, str]) -> str:
    """Return the kind of database for the options of Spark's JDBC reader or writer; their names ignore case."""
    return parse_kind(next(value for key, value in options.items() if key.lower() == "url"))


def check_name(kind: str, name: str) -> None:
    """Raise ValueError for a name that cannot be quoted safely in this database."""
    if "\x00" in name or ("\\" in name and kind not in _LITERAL):
        raise ValueError(
            f"the name {name!r} cannot be quoted safely: a backslash may hide the quote behind it in the database of "
            f"jdbc:{kind}:, and a NUL may end it. Rename it, as with the transform ReplaceField"
        )


def quote(kind: str, name: str) -> str:
    """Return a name in the database's quotes, which are doubled within it. Raises the errors of `check_name`."""
    check_name(kind, name)
    mark = "`" if kind in _BACKTICKS else '"'
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def in_sql(kind: str, written: str) -> str:
    """Convert a name in a config, `schema.table` or in any quotes, to SQL. Raises the errors of `check_name`."""
    return ".".join(_part(kind, part) for part in _PART.finditer(written))


def _part(kind: str, part: re.Match[str]) -> str:
    if part["bare"] is not None:
        return part[0]
    if part["bracket"] is not None and kind in _BRACKETS:
        check_name(kind, part["bracket"])
        return part[0]
    return quote(kind, next(name for name in part.groups() if name is not None))
