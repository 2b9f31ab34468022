"""Writes the records of a task to several tables, each with its own writer, commits and offsets.

Without routes, all records of a topic belong to one table, whose offsets determine where the task continues. With
routes, a partition may have records of several tables. The task then continues at the offset of the consumer group,
which is committed after all tables; each table skips the records before its own offset. A table without new records is
not written, and does not hold back the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kraal.connectors.tables.envelopes import read_envelopes
from kraal.connectors.tables.fitting import drop_nulls
from kraal.connectors.tables.positions import Ranges
from kraal.connectors.tables.settings import APPEND
from kraal.connectors.tables.template import TableTemplate
from kraal.connectors.tables.writer import Delivery, TableWriter, get_texts, locate
from kraal.plugins.api import DataException, TopicPartition


class TableRouter:
    """Writes the partitions of one task to their tables. Not thread-safe."""

    def __init__(self, template: TableTemplate, mode: str, make_writer: Callable[[str], TableWriter]) -> None:
        """Create an object; `make_writer` returns the writer of the table with a name, without opening the table."""
        self._template, self._mode, self._make_writer = template, mode, make_writer
        self._writers: dict[str, TableWriter] = {}
        self._assigned: Collection[TopicPartition] = ()

    def read_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the next offsets of partitions, as their tables store them, and continue there; empty with routes."""
        self._assigned = partitions
        if self._template.has_routes:
            for writer in self._writers.values():
                writer.assign(partitions)
            return {}
        tables: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            tables.setdefault(self._template.get_name(partition.topic), []).append(partition)
        for name in self._writers.keys() - tables.keys():
            self._writers[name].assign(())
        return {
            partition: offset
            for name, members in tables.items()
            for partition, offset in self._get_writer(name).read_offsets(members).items()
        }

    def write(self, records: pa.Table, ranges: Ranges, delivery: Delivery) -> None:
        """Commit the records of a batch to their tables; see `TableWriter.write`. Repeating the batch is harmless."""
        topics = sorted({partition.topic for partition in ranges})
        if self._template.has_routes:
            for topic in topics:
                self._write_routes(topic, *_select_topics(records, ranges, {topic}), delivery)
            return
        members: dict[str, set[str]] = {}
        for topic in topics:
            members.setdefault(self._template.get_name(topic), set()).add(topic)
        for name, member_topics in members.items():
            is_only_table = len(members) == 1
            part = (records, ranges) if is_only_table else _select_topics(records, ranges, member_topics)
            self._get_writer(name).write(*part, delivery)

    def find_maintained_tables(self) -> Collection[str]:
        """Return the tables that this task maintains: those of topics whose first partition it owns.

        With routes, only tables that the task has written are known.
        """
        topics = {partition.topic for partition in self._assigned if partition.partition == 0}
        if self._template.has_routes:
            return self._writers.keys() if topics else ()
        return {self._template.get_name(topic) for topic in topics}

    def _write_routes(self, topic: str, records: pa.Table, ranges: Ranges, delivery: Delivery) -> None:
        """Commit the records of one topic to the tables that their fields name."""
        routes = find_routes(records, str(self._template.route_field), self._mode)
        for route in sorted(set(routes.to_pylist()) - {None}):
            is_member = pc.fill_null(pc.equal(routes, route), False)  # noqa: FBT003 - the value for null
            try:
                name = self._template.get_name(topic, route)
            except ValueError as exc:
                self._report(records.filter(is_member), exc, delivery)
                continue
            self._get_writer(name).write(records.filter(is_member), ranges, delivery)
        if routes.null_count:
            field = self._template.route_field
            error = ValueError(f"the field {field}, which names its table, is null or missing")
            self._report(records.filter(routes.is_null()), error, delivery)

    def _report(self, records: pa.Table, error: ValueError, delivery: Delivery) -> None:
        for row in range(records.num_rows):
            place, offset = locate(records, row)
            message = f"{place.topic}-{place.partition}@{offset} cannot be written to {self._template.text}: {error}"
            delivery.report(place, offset, DataException(message))

    def _get_writer(self, name: str) -> TableWriter:
        if name not in self._writers:
            writer = self._writers[name] = self._make_writer(name)
            if self._template.has_routes:
                writer.assign(self._assigned)
        return self._writers[name]


def find_routes(records: pa.Table, field: str, mode: str) -> pa.Array:
    """Return the value of a field for each record as text; null if it is missing.

    With `append`, the field is one of the value; otherwise, one of the key, so that it is the same for all changes of a
    row, including deletes.
    """
    reading = read_envelopes(get_texts(records, "value" if mode == APPEND else "key"))
    routes = pa.nulls(records.num_rows, pa.string())
    for group in map(drop_nulls, reading.groups):
        if not pa.types.is_struct(group.values.type) or group.values.type.get_field_index(field) < 0:
            continue
        values = pc.struct_field(group.values, field)
        if pa.types.is_nested(values.type):
            continue
        is_member = pc.is_in(pa.array(range(records.num_rows), pa.int64()), group.rows)
        routes = pc.replace_with_mask(routes, is_member, values.cast(pa.string()))
    return routes


def _select_topics(records: pa.Table, ranges: Ranges, topics: set[str]) -> tuple[pa.Table, Ranges]:
    """Return the records and the ranges of topics. Raises DataException if a transform has renamed a topic."""
    all_topics = {partition.topic for partition in ranges}
    if all_topics == topics:  # a transform may have renamed the only topic
        return records, ranges
    if not pc.all(pc.is_in(records["topic"], pa.array(list(all_topics)))).as_py():
        raise DataException(
            "A transform changes the topics of records, but the table of a record is that of its topic in Kafka; use "
            "table.topic.regex instead of the transform"
        )
    part = records.filter(pc.is_in(records["topic"], pa.array(list(topics))))
    return part, {partition: span for partition, span in ranges.items() if partition.topic in topics}
