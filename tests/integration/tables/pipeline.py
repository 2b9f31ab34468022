"""A pipeline from a PostgreSQL table through Debezium and Kafka to lakehouse tables, and the comparison of both."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kraal.connectors.debezium.postgresql import is_in_snapshot
from kraal.jars.jars import ensure
from kraal.testing import ProcessCluster
from scripts.harness.postgresql import PostgreSQL, postgresql
from tests.fakes.tables.sinks import StoredRows, TableSink
from tests.integration.java_plugins.debezium.test_postgresql import (
    JSON_CONVERTER,
    restart_failed,
    source_config,
)
from tests.integration.java_plugins.debezium.test_proofs import prove
from tests.integration.java_plugins.flows import unique_name, wait_for_plugins
from tests.integration.tables.changes import Changes
from tests.integration.tables.kinds import Column

WORKER_PROPERTIES: Final = {
    "offset.flush.interval.ms": "500",
    "plugin.discovery": "service_load",  # Debezium lists its classes in manifests
    "key.converter": JSON_CONVERTER,
    "value.converter": JSON_CONVERTER,
}
SOURCE_PROPERTIES: Final = {
    "slot.drop.on.stop": "false",
    "skipped.operations": "none",  # by default, Debezium skips truncations
    "poll.interval.ms": "100",
    "topic.creation.default.replication.factor": "1",
}
_QUERY_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class Environment:
    """A cluster whose workers have Debezium's plugin, and a database."""

    cluster: ProcessCluster
    database: PostgreSQL


@contextmanager
def open_environment(cluster: ProcessCluster, directory: Path, workers: int) -> Iterator[Environment]:
    """Start a cluster that is not started yet, and a database whose changes can be captured."""
    plugins = directory / "plugins"
    with tarfile.open(next(path for path in ensure("debezium") if "postgres" in path.name)) as archive:
        archive.extractall(plugins, filter="data")
    with (
        postgresql("wal_level=logical", "max_replication_slots=20", "max_wal_senders=20") as database,
        cluster,
    ):
        for _ in range(workers):
            cluster.add({**WORKER_PROPERTIES, "plugin.path": str(plugins)})
        cluster.start_dead()
        for worker in cluster.alive:
            wait_for_plugins(worker)
        yield Environment(cluster, database)


class Pipeline:
    """A table of the database, the source that captures its changes, and sinks that copy it."""

    def __init__(
        self,
        environment: Environment,
        directory: Path,
        kinds: Sequence[str],
        *,
        seed: int,
        partitions: int = 1,
    ) -> None:
        """Create the table and the connectors, and wait until the sinks have the first rows.

        The database truncates the table only if the topic has one partition, as the order is not defined otherwise.
        """
        self.cluster, self._database = environment.cluster, environment.database
        self.source = unique_name("lake")
        self._table = self.source.replace("-", "_")
        self._topic, self._partitions = f"{self.source}.public.{self._table}", partitions
        self.changes = Changes(self._database, self._table, seed=seed, truncates=partitions == 1)
        self.sinks = [
            TableSink(
                kind,
                f"{self.source}-{kind}",
                directory / kind,
                "cdc",
                topic=self._topic,
                partitions=partitions,
            )
            for kind in kinds
        ]
        source = source_config(self._database, self.source, self._table)
        partition_count = {"topic.creation.default.partitions": str(partitions)}
        self.cluster.create(self.source, source | SOURCE_PROPERTIES | partition_count)
        self.cluster.wait_until("the source has completed its snapshot", self._has_completed_snapshot)
        for sink in self.sinks:
            (directory / sink.kind).mkdir()
            self.cluster.create(sink.name, sink.config)
        self.wait_for_progress()

    def delete(self) -> None:
        """Delete the connectors; their tasks must run."""
        for name in (*(sink.name for sink in self.sinks), self.source):
            self.cluster.delete(name)

    def wait_for_progress(self) -> None:
        """Wait until the tables contain all records that the topic has now, and a later change of the database."""
        ends = self._end_offsets()
        self.changes.mark()

        def has_progressed() -> bool:
            later = self._end_offsets()
            has_new_record = any(later[partition] > end for partition, end in ends.items())
            return has_new_record and all(self._has_reached(sink, ends) for sink in self.sinks)

        self.cluster.wait_until("the sinks have written new changes", has_progressed)

    def wait_for_tables(self) -> None:
        """Wait until the tables contain all changes of the database, which must not change meanwhile."""
        (position,) = self._database.ask("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")
        self.changes.mark()

        def has_delivered() -> bool:
            restart_failed(self.cluster, self.source)
            offset = self._read_offset()
            return offset is not None and int(offset["lsn"]) >= int(position)

        self.cluster.wait_until("the source has delivered all changes", has_delivered)
        ends = self._end_offsets()
        for sink in self.sinks:
            self.cluster.wait_until(
                f"{sink.name} has written all records",
                lambda: sink.offsets() == ends,  # noqa: B023 - called at once
            )

    def assert_tables_equal_the_database(self) -> None:
        """Compare the rows of all tables with those of the database and of the topic, and their types."""
        self.wait_for_tables()
        for sink in self.sinks:
            self.cluster.wait_for_states(sink.name, ["RUNNING"] * 3)
        columns = self.changes.columns
        expected = self._read_database(columns)
        assert expected
        for sink in self.sinks:
            content = read_sorted(sink, columns)
            assert parse(columns, content.rows) == expected, sink.kind
            assert content.types == expected_types(sink.kind, columns), sink.kind
            state = prove(self.cluster, sink.name)
            assert state["state"] == "PROVED", state

    def _read_database(self, columns: Sequence[Column]) -> list[list[object]]:
        values = ", ".join(column.original.format(f'"{column.name}"') for column in columns)
        query = f"SELECT json_build_array(id::text, {values}) FROM {self._table} ORDER BY id"  # noqa: S608 - our names
        return parse(columns, [json.loads(line) for line in self._database.ask(query)])

    def _has_reached(self, sink: TableSink, ends: dict[int, int]) -> bool:
        offsets = sink.offsets()
        return all(offsets.get(partition, 0) >= end for partition, end in ends.items())

    def _end_offsets(self) -> dict[int, int]:
        """Return the offset after the last record of each partition that has records."""
        results: list[dict[int, int]] = []

        def has_result() -> bool:
            # A broker that has just started may not know the leaders of partitions.
            with suppress(KafkaException):
                results.append(self._query_end_offsets())
            return bool(results)

        self.cluster.wait_until("the broker has returned the ends of the topic", has_result)
        return results[-1]

    def _query_end_offsets(self) -> dict[int, int]:
        settings = {"bootstrap.servers": self.cluster.bootstrap, "group.id": "none", "log_level": 2}
        ends: dict[int, int] = {}
        with closing(Consumer(settings)) as consumer:
            for number in range(self._partitions):
                partition = TopicPartition(self._topic, number)
                _, end = consumer.get_watermark_offsets(partition, timeout=_QUERY_TIMEOUT_S)
                if end:
                    ends[number] = end
        return ends

    def _has_completed_snapshot(self) -> bool:
        offset = self._read_offset()
        return offset is not None and not is_in_snapshot(offset)

    def _read_offset(self) -> dict[str, Any] | None:
        response = self.cluster.alive[0].get(f"/connectors/{self.source}/offsets")
        if response.status != 200 or not response.body["offsets"]:
            return None
        return dict(response.body["offsets"][0]["offset"])


def read_sorted(sink: TableSink, columns: Sequence[Column]) -> StoredRows:
    """Return the rows of a table by their keys, as DuckDB reads them."""
    values = ", ".join(column.stored.format(f'"{column.name}"') for column in columns)
    return sink.read(f"SELECT id::VARCHAR, {values} FROM stored ORDER BY id")  # noqa: S608 - our own names


def parse(columns: Sequence[Column], rows: Sequence[Sequence[str | None]]) -> list[list[object]]:
    """Return rows with normalized values; the first value of each row is its key."""
    return [
        [key, *(column.parse(value) for column, value in zip(columns, values, strict=True))]
        for key, *values in rows
    ]


def expected_types(kind: str, columns: Sequence[Column]) -> dict[str, str]:
    """Return the types in DuckDB. Delta has no times of day."""
    types = {"id": "BIGINT"} | {column.name: column.stored_type for column in columns}
    return {
        name: "VARCHAR" if kind == "delta" and column_type == "TIME" else column_type
        for name, column_type in types.items()
    }
