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

from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.changes import BatchChanges, make_changes
from kraal.connectors.tables.envelopes import read_envelopes
from kraal.connectors.tables.evolution import SchemaMismatch
from kraal.connectors.tables.fitting import Target
from kraal.connectors.tables.positions import Ranges, find_starts
from kraal.connectors.tables.reports import TableReporter
from kraal.connectors.tables.settings import FAIL, WriterSettings
from kraal.connectors.tables.table import Conflict, LakeTable, TableState
from kraal.plugins.api import DataException, RetriableError, TableReport, TableSchemaChange, TopicPartition

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 8
"""Attempts to commit a batch while other tasks commit to the same table; then the task retries the batch later."""
_MAX_DELAY_S: Final = 1.0

Report = Callable[[TopicPartition, int, BaseException], None]
"""See `SinkBatch.report`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How the task of a batch receives its results."""

    report: Report
    """Receives each record that cannot be written; may raise."""
    flush_reports: Callable[[], None] = lambda: None
    """Writes the dead letters of the reported records, before the commit; may raise."""
    check_owned: Callable[[], None] = lambda: None
    """Called immediately before the commit; may raise to prevent it."""


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
        self._ignored: set[str] = set()
        """The columns and types that were left out and logged."""

    def read_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the next offsets of partitions, as the table stores them, and continue there."""
        state = self._table.load(partitions)
        self._expected = dict(state.offsets)
        self._reporter.assign(partitions)
        self._reporter.report(state.handle, self._expected)
        return self._expected

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        """Continue with partitions at any offset, without reading the table."""
        self._expected = {}
        self._reporter.reassign(partitions)

    def write(self, records: pa.Table, ranges: Ranges, delivery: Delivery) -> None:
        """Commit the records that the table does not contain yet.

        Args:
            records: columns topic, partition, offset, key and value, and optionally timestamp; key and value are
                envelopes.
            ranges: the offsets `[start, end)` of each partition.
            delivery: see `Delivery`.

        Raises:
            RetriableError: the batch must be written again later.
            DataException: the table cannot store the records, and they cannot be reported one by one.
            TableMoved, SchemaRefused, and the errors of `delivery`.
        """
        prepared: _Prepared | None = None
        for attempt in range(MAX_ATTEMPTS):
            state = self._table.load(ranges.keys())
            starts = find_starts(ranges, state.offsets, self._expected)
            if all(starts[partition] == end for partition, (_, end) in ranges.items()):
                handle = state.handle
                break  # the commit of an earlier attempt has succeeded, or another task has written the records
            if prepared is None or (prepared.starts, prepared.schema) != (starts, state.schema):
                prepared = self._prepare(records, ranges, starts, state.schema, delivery.report)
            if state.schema is None and not prepared.result.changes.rows.num_rows:
                return  # no row exists that could be deleted, and the schema of a new table is unknown
            try:
                handle = self._commit(state, prepared, ranges, delivery)
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
        self,
        records: pa.Table,
        ranges: Ranges,
        starts: Mapping[TopicPartition, int],
        schema: pa.Schema | None,
        report: Report,
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
        policy = self._settings.evolution
        try:
            result = make_changes(
                read_envelopes(get_texts(records, "key")),
                read_envelopes(get_texts(records, "value")),
                records.num_rows,
                partitions.combine_chunks(),
                self._settings.changes,
                Target(
                    policy=policy,
                    schema=schema,
                    store_as=self._table.store_as,
                    can_widen=self._table.can_widen,
                ),
            )
        except SchemaMismatch as exc:
            raise DataException(
                f"{self._table.name} cannot be written with this config: {exc} (schema.evolution={policy}). Change "
                "the table, or the config of the connector"
            ) from exc
        for row, error in sorted(result.errors.items()):
            self._report(places, row, error, report)
        self._log_ignored(places, result)
        return _Prepared(dict(starts), schema, result, self._locate_changes(places, result))

    def _report(self, places: pa.Table, row: int, error: Exception, report: Report) -> None:
        """Report a record that cannot be written. Raises DataException if the policy is `fail`."""
        place, offset = locate(places, row)
        record = f"{place.topic}-{place.partition}@{offset}"
        if not isinstance(error, SchemaMismatch):
            report(place, offset, DataException(f"{record} cannot be written to {self._table.name}: {error}"))
            return
        policy = self._settings.evolution
        mismatch = DataException(
            f"{record} does not fit into {self._table.name}: {error} (schema.evolution={policy}). Change the table, or "
            "the config of the connector"
        )
        if policy == FAIL:
            raise mismatch
        report(place, offset, mismatch)

    def _locate_changes(self, places: pa.Table, result: BatchChanges) -> list[TableSchemaChange]:
        """Return the changes of the schema, each with the record that requires it; they are logged."""
        schema_changes = []
        for row, change in result.schema_changes if places.num_rows else ():
            place, offset = locate(places, row)
            schema_changes.append(
                TableSchemaChange(
                    record=f"{place.topic}-{place.partition}@{offset}",
                    column=change.column,
                    old_type=None if change.old is None else str(change.old),
                    new_type=str(change.new),
                )
            )
            log.info("%s: Schema change: %s", self._table.name, schema_changes[-1])
        return schema_changes

    def _log_ignored(self, places: pa.Table, result: BatchChanges) -> None:
        """Log each column and type that is left out for the first time."""
        for misfit in result.ignored:
            if str(misfit.reason) in self._ignored:
                continue
            self._ignored.add(str(misfit.reason))
            place, offset = locate(places, misfit.row)
            log.warning(
                "%s: Ignoring values from %s-%s@%s on (schema.evolution=ignore): %s",
                self._table.name, place.topic, place.partition, offset, misfit.reason,
            )  # fmt: skip

    def _commit(self, state: TableState, prepared: _Prepared, ranges: Ranges, delivery: Delivery) -> Any:
        """Commit the changes; return the library's object for the new version."""
        schema, changes = prepared.result.schema, prepared.result.changes
        names = schema.names if self._table.replaces_rows else changes.rows.column_names
        changes = replace(
            changes,
            schema_changes=prepared.schema_changes,
            rows=cast_table(changes.rows, pa.schema([schema.field(name) for name in names])),
            deletes=None
            if changes.deletes is None
            else cast_table(changes.deletes, pa.schema([schema.field(name) for name in changes.key])),
        )
        offsets = {partition: end for partition, (_, end) in ranges.items()}
        if prepared.result.errors:
            delivery.check_owned()
            delivery.flush_reports()
        started_s = time.monotonic()
        handle = self._table.commit(state, schema, changes, offsets, delivery.check_owned)
        self._reporter.record_commit(time.monotonic() - started_s, len(prepared.schema_changes))
        return handle


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The changes of the records of a batch from `starts` on."""

    starts: Mapping[TopicPartition, int]
    schema: pa.Schema | None
    """The schema of the table; None if it does not exist."""
    result: BatchChanges
    schema_changes: list[TableSchemaChange]


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


def get_texts(records: pa.Table, name: str) -> pa.Array:
    """Return a column of keys or values as one array."""
    texts = records[name].combine_chunks()
    if isinstance(texts, pa.ChunkedArray):
        texts = pa.concat_arrays(texts.chunks or [pa.array([], pa.string())])
    return texts.cast(pa.string())


def locate(places: pa.Table, row: int) -> tuple[TopicPartition, int]:
    """Return the partition and the offset of a row."""
    topic, partition, offset = (places[name][row].as_py() for name in ("topic", "partition", "offset"))
    return TopicPartition(topic, partition), offset
