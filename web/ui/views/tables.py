"""Tables that a sink writes, from the response to `GET …/tables`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.ids import Json
from web.ui.views.json_values import get_integer, mapping, maps, text, texts

_MAX_OFFSETS: Final = 8
"""Maximum number of partitions that are listed for a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition that is written to a table."""

    name: str
    """Such as `orders-0`."""
    task: int | None
    offset: int | None
    lag_records: int | None
    lag_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitView:
    """A commit of a table."""

    version: str
    time_ms: int | None
    operation: str
    rows: str
    """Such as `+5 ~2 -1`: added, updated and deleted rows; empty if unknown."""
    files: str
    """Such as `+1 -1`: added and removed files; empty if unknown."""
    offsets: str | None
    """Such as `orders-0@12`; None if the commit has no offsets of the connector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChangeView:
    """A column that was added or widened."""

    time_ms: int | None
    column: str
    old_type: str
    """Empty for a new column."""
    new_type: str
    record: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView:
    """A table."""

    name: str
    format: str
    exists: bool
    reported_ms: int | None
    rows: int | None
    files: int | None
    size_bytes: int | None
    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    partitions: tuple[PartitionView, ...]
    commits: tuple[CommitView, ...]
    schema_changes: tuple[SchemaChangeView, ...]
    commit_count: int
    """Commits of the connector's tasks since each of them was started."""
    commit_ms: float | None
    """Mean duration of these commits; None before the first commit."""
    conflicts: int

    @property
    def lag_records(self) -> int | None:
        """The total of all partitions; None if no lag is known."""
        lags = [each.lag_records for each in self.partitions if each.lag_records is not None]
        return sum(lags) if lags else None

    @property
    def lag_ms(self) -> int | None:
        """The maximum of all partitions; None if no lag is known."""
        return max((each.lag_ms for each in self.partitions if each.lag_ms is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesView:
    """The tables of a connector."""

    tables: tuple[TableView, ...]
    silent_workers: tuple[str, ...]
    """Workers that did not respond."""


def parse_tables(response: Json) -> TablesView:
    """Return the tables from the response; values of an unexpected type count as missing."""
    content = mapping(response)
    return TablesView(
        tables=tuple(map(_parse_table, maps(content.get("tables")))),
        silent_workers=tuple(texts(content.get("silent"))),
    )


def _parse_table(table: Mapping[str, Any]) -> TableView:
    totals = mapping(table.get("totals"))
    commit_count, commit_ms = get_integer(totals, "commits") or 0, get_integer(totals, "commit_ms")
    return TableView(
        name=text(table, "table"),
        format=text(table, "format"),
        exists=isinstance(table.get("version"), str),
        reported_ms=get_integer(table, "reported_ms"),
        rows=get_integer(table, "rows"),
        files=get_integer(table, "files"),
        size_bytes=get_integer(table, "size_bytes"),
        columns=tuple((text(column, "name"), text(column, "type")) for column in maps(table.get("columns"))),
        partitions=tuple(map(_parse_partition, maps(table.get("partitions")))),
        commits=tuple(map(_parse_commit, maps(table.get("commits")))),
        schema_changes=tuple(map(_parse_schema_change, maps(table.get("schema_changes")))),
        commit_count=commit_count,
        commit_ms=commit_ms / commit_count if commit_count and commit_ms is not None else None,
        conflicts=get_integer(totals, "conflicts") or 0,
    )


def _parse_partition(partition: Mapping[str, Any]) -> PartitionView:
    return PartitionView(
        name=_format_partition(partition),
        task=get_integer(partition, "task"),
        offset=get_integer(partition, "offset"),
        lag_records=get_integer(partition, "lag_records"),
        lag_ms=get_integer(partition, "lag_ms"),
    )


def _parse_commit(commit: Mapping[str, Any]) -> CommitView:
    return CommitView(
        version=text(commit, "version"),
        time_ms=get_integer(commit, "time_ms"),
        operation=text(commit, "operation"),
        rows=_format_counts(commit, {"+": "rows_added", "~": "rows_updated", "-": "rows_deleted"}),
        files=_format_counts(commit, {"+": "files_added", "-": "files_removed"}),
        offsets=_format_offsets(commit.get("offsets")),
    )


def _parse_schema_change(change: Mapping[str, Any]) -> SchemaChangeView:
    return SchemaChangeView(
        time_ms=get_integer(change, "time_ms"),
        column=text(change, "column"),
        old_type=text(change, "old_type"),
        new_type=text(change, "new_type"),
        record=text(change, "record"),
        version=text(change, "version"),
    )


def _format_partition(partition: Mapping[str, Any]) -> str:
    return f"{text(partition, 'topic')}-{get_integer(partition, 'partition')}"


def _format_offsets(offsets: object) -> str | None:
    if not isinstance(offsets, list):
        return None
    partitions = [f"{_format_partition(each)}@{get_integer(each, 'offset')}" for each in maps(offsets)]
    more = f" and {len(partitions) - _MAX_OFFSETS} more" if len(partitions) > _MAX_OFFSETS else ""
    return ", ".join(partitions[:_MAX_OFFSETS]) + more


def _format_counts(commit: Mapping[str, Any], fields: Mapping[str, str]) -> str:
    """Return the counts that are known and not 0; `0` if all known counts are 0."""
    counts = {sign: get_integer(commit, field) for sign, field in fields.items()}
    known = {sign: count for sign, count in counts.items() if count is not None}
    return " ".join(f"{sign}{count:,}" for sign, count in known.items() if count) or ("0" if known else "")
