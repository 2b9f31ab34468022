"""How a table is laid out when it is created: its partitions, its sort order, and its properties."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kraal.connectors.tables.table import SchemaRefused

IDENTITY: Final = "identity"
_TIMES: Final = ("year", "month", "day", "hour")
_WIDTHS: Final = ("bucket", "truncate")
TRANSFORMS: Final = (*_TIMES, *_WIDTHS)
_SEPARATOR: Final = re.compile(r",(?![^()]*\))")
"""A comma that is not in parentheses."""
_TERM: Final = re.compile(r"(?:(?P<name>\w+)\s*\(\s*(?P<argument>[^()]+?)\s*\)|(?P<column>[^()]+))")


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A value that is the same for all rows of a partition."""

    column: str
    transform: str = IDENTITY
    """The transform in Iceberg's form: `identity`, `day`, `bucket[16]`."""


@dataclass(frozen=True, slots=True)
class SortField:
    """A column by which the rows of a file are sorted; null comes last."""

    column: str
    is_descending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The layout of a new table."""

    partition_by: tuple[PartitionField, ...] = ()
    sort_by: tuple[SortField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def check_columns(self, table: str, columns: Collection[str]) -> None:
        """Raise SchemaRefused if a table does not have a column that the layout requires."""
        for key, names in (
            ("partition.by", [term.column for term in self.partition_by]),
            ("sort.by", [term.column for term in self.sort_by]),
        ):
            for name in names:
                if name not in columns:
                    raise SchemaRefused(
                        f"{table} cannot be created: {key} names the column {name}, but the first records have only "
                        f"{', '.join(columns)}"
                    )


DEFAULT_LAYOUT: Final = TableLayout()


def parse_partition_by(text: str) -> tuple[PartitionField, ...]:
    """Parse a list such as `country, day(created_at), bucket(id, 16)`. Raises ValueError."""
    fields = tuple(_parse_partition_field(term) for term in _split(text))
    if len(set(fields)) < len(fields):
        raise ValueError("a partition field is listed twice")
    return fields


def parse_sort_by(text: str) -> tuple[SortField, ...]:
    """Parse a list such as `country, created_at desc`. Raises ValueError."""
    fields = []
    for term in _split(text):
        column, _, direction = term.rpartition(" ")
        if direction.lower() in {"asc", "desc"} and column:
            fields.append(SortField(column.strip(), direction.lower() == "desc"))
        else:
            fields.append(SortField(term))
    if len({term.column for term in fields}) < len(fields):
        raise ValueError("a column is listed twice")
    return tuple(fields)


def _split(text: str) -> list[str]:
    if not text.strip():
        return []
    terms = [term.strip() for term in _SEPARATOR.split(text)]
    if not all(terms):
        raise ValueError("the list has an empty entry")
    return terms


def _parse_partition_field(term: str) -> PartitionField:
    match = _TERM.fullmatch(term)
    if match is None:
        raise ValueError(f"{term} is neither a column nor TRANSFORM(COLUMN)")
    if match["column"] is not None:
        return PartitionField(match["column"])
    name = match["name"].lower()
    singular = name.removesuffix("s")
    if singular in _TIMES:
        return PartitionField(match["argument"], singular)
    if name not in _WIDTHS:
        raise ValueError(f"unknown transform {match['name']}; valid transforms are {', '.join(TRANSFORMS)}")
    column, _, width = (part.strip() for part in match["argument"].rpartition(","))
    if not column or not width.isdecimal() or int(width) < 1:
        raise ValueError(f"{term} requires a column and a positive number, such as {name}(id, 16)")
    return PartitionField(column, f"{name}[{int(width)}]")
