"""Writes batches of records to a table, each in one commit together with the offsets of its partitions."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.changes import BatchChanges, ChangeSettings, cast_table, make_changes
from kraal.connectors.tables.envelopes import read_envelopes
from kraal.connectors.tables.evolution import SchemaMismatch, apply_policy, evolve
from kraal.connectors.tables.positions import Ranges, find_starts
from kraal.connectors.tables.reports import TableReporter
from kraal.connectors.tables.table import Changes, Conflict, LakeTable, TableState
from kraal.plugins.api import DataException, RetriableError, TableReport, TableSchemaChange, TopicPartition

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 8
"""Attempts to commit a batch while other tasks commit to the same table; then the task retries the batch later."""
_MAX_DELAY_S: Final = 1.0

Report = Callable[[TopicPartition, int, BaseException], None]
"""See `SinkBatch.report`."""


@dataclass(frozen=True, slots=True)
class WriterSettings:
    """The settings of a writer."""

    changes: ChangeSettings
    evolution: str


class TableWriter:
    """Writes the partitions of one task to a table. Not thread-safe."""

    def __init__(
        self,
        table: LakeTable,
        settings: WriterSettings,
        sleep: Callable[[float], None] = time.sleep,
        report_table: Callable[[TableReport], None] = lambda _: None,
    ) -> None:
        self._table, self._settings, self._sleep = table, settings, sleep
        self._reporter = TableReporter(table, report_table)
        self._expected: dict[TopicPartition, int] = {}
        """The next offsets in the table when it was last read or written."""

    def read_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the next offsets of partitions, as the table stores them, and continue there."""
        state = self._table.load(partitions)
        self._expected = dict(state.offsets)
        self._reporter.assign(partitions)
        self._reporter.report(state.handle, self._expected)
        return self._expected

    def write(
        self,
        records: pa.Table,
        ranges: Ranges,
        report: Report,
        check_owned: Callable[[], None] = lambda: None,
    ) -> None:
        """Commit the records that the table does not contain yet.

        Args:
            records: columns topic, partition, offset, key and value, and optionally timestamp; key and value are
                envelopes.
            ranges: the offsets `[start, end)` of each partition.
            report: receives each record that cannot be written; may raise.
            check_owned: called immediately before the commit; may raise to prevent it.

        Raises:
            RetriableError: the batch must be written again later.
            TableMoved, SchemaMismatch, SchemaRefused, and the errors of `report` and `check_owned`.
        """
        prepared: _Prepared | None = None
        for attempt in range(MAX_ATTEMPTS):
            state = self._table.load(ranges.keys())
            starts = find_starts(ranges, state.offsets, self._expected)
            if all(starts[partition] == end for partition, (_, end) in ranges.items()):
                handle = state.handle
                break  # the commit of an earlier attempt has succeeded, or another task has written the records
            if prepared is None or prepared.starts != starts:
                prepared = self._prepare(records, ranges, starts, report)
            if state.schema is None and not prepared.result.changes.rows.num_rows:
                return  # no row exists that could be deleted, and the schema of a new table is unknown
            try:
                handle = self._commit(state, prepared, ranges, check_owned)
                break
            except Conflict as exc:
                self._reporter.record_conflict()
                log.info("%s: Repeating a commit after a conflict: %s", self._table.name, exc)
                self._sleep(random.uniform(0, min(_MAX_DELAY_S, 0.05 * 2**attempt)))  # noqa: S311 - no secret
        else:
            raise RetriableError(
                f"{self._table.name}: {MAX_ATTEMPTS} commits have failed because other writers have committed"
            )
        self._expected |= {partition: end for partition, (_, end) in ranges.items()}
        self._reporter.record_timestamps(records)
        self._reporter.report(handle, self._expected)

    def _prepare(
        self, records: pa.Table, ranges: Ranges, starts: Mapping[TopicPartition, int], report: Report
    ) -> _Prepared:
        """Return the changes of the records from `starts` on; invalid records are reported."""
        if any(starts[partition] > start for partition, (start, _) in ranges.items()):
            records = _drop_written(records, starts)
            ends = ", ".join(f"{p.topic}-{p.partition}@{start}" for p, start in sorted(starts.items()))
            log.info(
                "%s: Skipping records that the table already contains, before %s", self._table.name, ends
            )
        places = records.select(["topic", "partition", "offset"])
        partitions = pc.binary_join_element_wise(
            records["topic"].cast(pa.string()), records["partition"].cast(pa.string()), "-"
        )
        texts = [pc.cast(records[name].combine_chunks(), pa.string()) for name in ("key", "value")]
        key_texts, value_texts = (
            text
            if isinstance(text, pa.Array)
            else pa.concat_arrays(text.chunks or [pa.array([], pa.string())])
            for text in texts
        )
        try:
            result = make_changes(
                read_envelopes(key_texts),
                read_envelopes(value_texts),
                records.num_rows,
                partitions.combine_chunks(),
                self._settings.changes,
            )
        except SchemaMismatch as exc:
            raise DataException(
                f"{self._table.name}: records of one batch do not fit together: {exc}"
            ) from exc
        for row, error in sorted(result.errors.items()):
            place, offset = _locate(places, row)
            message = (
                f"{place.topic}-{place.partition}@{offset} cannot be written to {self._table.name}: {error}"
            )
            report(place, offset, DataException(message))
        return _Prepared(dict(starts), result, places)

    def _commit(
        self, state: TableState, prepared: _Prepared, ranges: Ranges, check_owned: Callable[[], None]
    ) -> Any:
        """Commit the changes; return the library's object for the new version."""
        started_s = time.monotonic()
        changes = self._store_types(prepared.result.changes)
        schema, schema_changes = self._evolve(state, changes, prepared)
        changes = replace(
            changes,
            schema_changes=schema_changes,
            rows=cast_table(changes.rows, schema),
            deletes=None
            if changes.deletes is None
            else cast_table(changes.deletes, pa.schema([schema.field(name) for name in changes.key])),
        )
        for column in schema:
            if not column.nullable and changes.rows[column.name].null_count:
                raise DataException(
                    f"column {column.name} of {self._table.name} requires a value, but a record has none. Make the "
                    "column optional in the table"
                )
        offsets = {partition: end for partition, (_, end) in ranges.items()}
        handle = self._table.commit(state, schema, changes, offsets, check_owned)
        self._reporter.record_commit(time.monotonic() - started_s, len(schema_changes))
        return handle

    def _store_types(self, changes: Changes) -> Changes:
        """Return the changes with types that the format supports."""

        def convert(table: pa.Table) -> pa.Table:
            types = [column.with_type(self._table.store_as(column.type)) for column in table.schema]
            return cast_table(table, pa.schema(types))

        deletes = None if changes.deletes is None else convert(changes.deletes)
        return replace(changes, rows=convert(changes.rows), deletes=deletes)

    def _evolve(
        self, state: TableState, changes: Changes, prepared: _Prepared
    ) -> tuple[pa.Schema, list[TableSchemaChange]]:
        """Return the schema of the table after the commit, and its changes.

        Raises DataException that names the record and the types.
        """
        columns = changes.rows.schema
        if state.schema is None:
            return columns, []
        missing_keys = [name for name in changes.key if name not in state.schema.names]
        try:
            if missing_keys:
                raise SchemaMismatch(missing_keys[0], None, columns.field(missing_keys[0]).type)
            evolution = evolve(state.schema, columns)
            apply_policy(evolution, self._settings.evolution)
        except SchemaMismatch as exc:
            column = exc.column.partition(".")[0]
            row = prepared.result.first_rows.get(column, 0)
            place, offset = _locate(prepared.places, row)
            raise DataException(
                f"{place.topic}-{place.partition}@{offset} does not fit into {self._table.name}: {exc} "
                f"(schema.evolution={self._settings.evolution}). Change the table, or the config of the connector"
            ) from exc
        schema_changes = []
        for change in evolution.changes:
            row = prepared.result.first_rows.get(change.column.partition(".")[0], 0)
            place, offset = _locate(prepared.places, row)
            old_type = None if change.old is None else str(change.old)
            schema_changes.append(
                TableSchemaChange(
                    record=f"{place.topic}-{place.partition}@{offset}",
                    column=change.column,
                    old_type=old_type,
                    new_type=str(change.new),
                )
            )
            log.info("%s: Schema change: %s", self._table.name, schema_changes[-1])
        return evolution.schema, schema_changes


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The changes of the records of a batch from `starts` on."""

    starts: Mapping[TopicPartition, int]
    result: BatchChanges
    places: pa.Table


def _drop_written(records: pa.Table, starts: Mapping[TopicPartition, int]) -> pa.Table:
    """Return the records of each partition from its start on."""
    has_one_topic = len({partition.topic for partition in starts}) == 1  # a transform may have renamed it
    no_row = pa.repeat(pa.scalar(value=False), records.num_rows)
    is_known = is_new = no_row
    for partition, start in starts.items():
        is_partition = pc.equal(records["partition"], partition.partition)
        if not has_one_topic:
            is_partition = pc.and_(is_partition, pc.equal(records["topic"], partition.topic))
        is_known = pc.or_(is_known, is_partition)
        is_new = pc.or_(is_new, pc.and_(is_partition, pc.greater_equal(records["offset"], start)))
    if not pc.all(is_known).as_py():
        raise DataException(
            "A transform changes topics or partitions of a connector that reads several topics"
        )
    return records.filter(is_new)


def _locate(places: pa.Table, row: int) -> tuple[TopicPartition, int]:
    """Return the partition and the offset of a row."""
    topic, partition, offset = (places[name][row].as_py() for name in ("topic", "partition", "offset"))
    return TopicPartition(topic, partition), offset
