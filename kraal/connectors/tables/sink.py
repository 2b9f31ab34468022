"""The connectors IcebergSink and DeltaSink: sinks that keep a table equal to a topic or to the table behind it.

Each batch is one commit of the table, which also contains the offsets of the batch. A task continues at these offsets,
so each record changes the table exactly once, whatever the consumer group has committed.
"""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.connectors.pass_through import PassThroughConnector
from kraal.connectors.tables.config import (
    CATALOG,
    CATALOG_PREFIX,
    DELTA_SINK,
    ICEBERG_SINK,
    STORAGE_PREFIX,
    make_writer_settings,
    select_prefix,
)
from kraal.connectors.tables.table import Conflict, LakeTable
from kraal.connectors.tables.writer import MAX_ATTEMPTS, TableWriter
from kraal.plugins.api import (
    ConfigDef,
    ConfigValue,
    RetriableError,
    SinkBatch,
    SinkTask,
    TaskContext,
    TopicPartition,
)

_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value")


class TableSinkTask(SinkTask):
    """Writes the task's share of the records."""

    values = "json-envelope"
    all_or_nothing = True
    takes_tables = True
    takes_pieces = True
    config_def: ClassVar[ConfigDef]

    def __init__(self) -> None:
        self._writer: TableWriter | None = None

    @classmethod
    @abstractmethod
    def open_table(cls, config: Mapping[str, str]) -> LakeTable:
        """Return the table of a valid config, without opening it. `config` contains the connector's name."""

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        parsed = self.config_def.parse(config)
        self.batch_interval_s = float(parsed["commit.interval.ms"]) / 1000  # type: ignore[arg-type]
        self.max_batch_records = int(parsed["commit.records"])  # type: ignore[call-overload]
        table = self.open_table({**config, "name": context.connector})
        self._writer = TableWriter(table, make_writer_settings(parsed), report_table=context.report_table)

    @override
    def stored_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        assert self._writer is not None  # noqa: S101 - set by start
        return self._writer.read_offsets(partitions)

    @override
    def write(self, batch: SinkBatch) -> None:
        assert self._writer is not None  # noqa: S101 - set by start
        records: Any = batch.frame.toArrow() if batch.table is None else batch.table
        columns = [name for name in _COLUMNS if name in records.column_names]
        self._writer.write(records.select(columns), batch.ranges, _refuse, batch.check_owned)


def _refuse(partition: TopicPartition, offset: int, error: BaseException) -> None:
    """Fail the task because of a record that cannot be written, also with `errors.tolerance=all`.

    Dead letters are written after `write`, when the table contains the offset of the record already. A failure in
    between would lose the record.
    """
    del partition, offset
    raise error


class IcebergSinkTask(TableSinkTask):
    """Writes to an Iceberg table."""

    config_def = ICEBERG_SINK

    @classmethod
    @override
    def open_table(cls, config: Mapping[str, str]) -> LakeTable:
        from kraal.connectors.tables.iceberg import IcebergTable, make_catalog  # noqa: PLC0415 - an extra

        parsed = ICEBERG_SINK.parse(config)
        properties = select_prefix(config, CATALOG_PREFIX)
        return IcebergTable(
            partial(make_catalog, str(parsed[CATALOG]), properties),
            str(parsed["table"]),
            config["name"],
            tuple(parsed["partition.by"]),  # type: ignore[arg-type]
        )


class DeltaSinkTask(TableSinkTask):
    """Writes to a Delta table."""

    config_def = DELTA_SINK

    @classmethod
    @override
    def open_table(cls, config: Mapping[str, str]) -> LakeTable:
        from kraal.connectors.tables.delta import DeltaLakeTable  # noqa: PLC0415 - an extra

        parsed = DELTA_SINK.parse(config)
        return DeltaLakeTable(
            str(parsed["table"]).replace("s3a://", "s3://", 1),
            config["name"],
            select_prefix(config, STORAGE_PREFIX),
            tuple(parsed["partition.by"]),  # type: ignore[arg-type]
        )


class TableSinkConnector(PassThroughConnector):
    """Writes one table with `tasks.max` tasks, all with the same config."""

    kind = "sink"
    version: ClassVar[str] = __version__
    task_class: ClassVar[type[TableSinkTask]]
    package: ClassVar[str]
    """The package that the connector requires."""

    @classmethod
    @override
    def validate(cls, config: Mapping[str, str | None]) -> Sequence[ConfigValue]:
        values = list(super().validate(config))
        if importlib.util.find_spec(cls.package) is not None:
            return values
        error = f"The package {cls.package} is not installed on the worker: pip install 'kraal[lake]'"
        return [
            replace(value, errors=(*value.errors, error)) if value.name == "table" else value
            for value in values
        ]

    @override
    def check(self, config: Mapping[str, str]) -> None:
        self.config_def.parse(config)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self._config] * max_tasks

    @override
    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Set the offsets in the table, which tasks prefer to those of the consumer group."""
        table = self.task_class.open_table(config)
        for _ in range(MAX_ATTEMPTS):
            try:
                table.set_offsets(table.load(offsets.keys()), offsets)
            except Conflict:
                continue
            except RetriableError as exc:
                raise ValueError(str(exc)) from exc
            return True
        raise ValueError(
            f"{table.name}: the offsets cannot be changed, because other writers commit; try again"
        )


class IcebergSinkConnector(TableSinkConnector):
    """Writes an Iceberg table: appends rows, or keeps the table equal to the latest values of all keys."""

    config_def = ICEBERG_SINK
    task_class = IcebergSinkTask
    package = "pyiceberg"


class DeltaSinkConnector(TableSinkConnector):
    """Writes a Delta table: appends rows, or keeps the table equal to the latest values of all keys."""

    config_def = DELTA_SINK
    task_class = DeltaSinkTask
    package = "deltalake"
