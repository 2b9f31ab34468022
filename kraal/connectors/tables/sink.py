"""The connectors IcebergSink and DeltaSink: sinks that keep a table equal to a topic or to the table behind it.

Each batch is one commit of the table, which also contains the offsets of the batch. A task continues at these offsets,
so each record changes the table exactly once, whatever the consumer group has committed.
"""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.connectors.pass_through import PassThroughConnector
from kraal.connectors.tables.config import (
    CATALOG,
    CATALOG_PACKAGES,
    CATALOG_PREFIX,
    DELTA_SINK,
    ICEBERG_SINK,
    STORAGE_PREFIX,
    find_conflicts,
    make_layout,
    make_template,
    make_writer_settings,
    select_prefix,
)
from kraal.connectors.tables.iceberg_keys import Text, translate_keys
from kraal.connectors.tables.maintenance import Maintenance
from kraal.connectors.tables.routing import TableRouter
from kraal.connectors.tables.settings import EVOLVE, FAIL
from kraal.connectors.tables.table import Conflict, LakeTable
from kraal.connectors.tables.writer import MAX_ATTEMPTS, Delivery, TableWriter
from kraal.plugins.api import (
    ConfigDef,
    ConfigValue,
    NotComparable,
    ReadableTarget,
    RetriableError,
    SinkBatch,
    SinkTask,
    TaskContext,
    TopicPartition,
    WorkerView,
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
        self._router: TableRouter | None = None
        self._maintenance: Maintenance | None = None
        self._connections = ExitStack()

    @classmethod
    def translate(cls, config: Mapping[str, Text]) -> Mapping[str, Text]:
        """Return a config in which the keys of other connectors are replaced by those of this connector."""
        return config

    @classmethod
    @abstractmethod
    def make_opener(cls, config: Mapping[str, str], connections: ExitStack) -> Callable[[str], LakeTable]:
        """Return a function that returns the table with a name, without opening it.

        `config` is valid and translated, and contains the connector's name. `connections` closes the connections of
        the tables.
        """

    @classmethod
    def open_table(cls, config: Mapping[str, str], connections: ExitStack | None = None) -> LakeTable:
        """Return the table of a valid config for a single table; see `make_opener`."""
        translated = cls.translate(config)
        return cls.make_opener(translated, connections or ExitStack())(translated["table"])

    @classmethod
    @contextmanager
    def open_briefly(cls, config: Mapping[str, str], name: str) -> Iterator[LakeTable]:
        """Yield the table with a name, and close its connections; `config` is as for `make_opener`."""
        with ExitStack() as connections:
            yield cls.make_opener(config, connections)(name)

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        translated = {**self.translate(config), "name": context.connector}
        parsed = self.config_def.parse(translated)
        self.batch_interval_s = float(parsed["commit.interval.ms"]) / 1000  # type: ignore[arg-type]
        self.max_batch_records = int(parsed["commit.records"])  # type: ignore[call-overload]
        self.max_batch_bytes = int(parsed["commit.bytes"])  # type: ignore[call-overload]
        settings, open_table = make_writer_settings(parsed), self.make_opener(translated, self._connections)
        self._router = TableRouter(
            make_template(translated),
            settings.changes.mode,
            lambda name: TableWriter(open_table(name), settings, report_table=context.report_table),
        )
        interval_s = float(parsed["maintenance.interval.ms"]) / 1000  # type: ignore[arg-type]
        self._maintenance = Maintenance(interval_s, partial(self.open_briefly, translated))

    @override
    def stored_offsets(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        assert self._router is not None  # noqa: S101 - set by start
        return self._router.read_offsets(partitions)

    @override
    def write(self, batch: SinkBatch) -> None:
        assert self._router is not None  # noqa: S101 - set by start
        assert self._maintenance is not None  # noqa: S101 - set by start
        records: Any = batch.frame.toArrow() if batch.table is None else batch.table
        delivery = Delivery(
            report=batch.report, flush_reports=batch.flush_reports, check_owned=batch.check_owned
        )
        columns = [name for name in _COLUMNS if name in records.column_names]
        self._router.write(records.select(columns), batch.ranges, delivery)
        self._maintenance.start_if_due(self._router.find_maintained_tables)

    @override
    def stop(self) -> None:
        if self._maintenance is not None:
            self._maintenance.stop()
        self._connections.close()


class IcebergSinkTask(TableSinkTask):
    """Writes to Iceberg tables."""

    config_def = ICEBERG_SINK

    @classmethod
    @override
    def translate(cls, config: Mapping[str, Text]) -> Mapping[str, Text]:
        return translate_keys(config)

    @classmethod
    @override
    def make_opener(cls, config: Mapping[str, str], connections: ExitStack) -> Callable[[str], LakeTable]:
        from kraal.connectors.tables.iceberg import IcebergTable, make_catalog  # noqa: PLC0415 - an extra

        catalog_name, properties = (
            str(ICEBERG_SINK.parse(config)[CATALOG]),
            select_prefix(config, CATALOG_PREFIX),
        )

        @cache
        def open_catalog() -> Any:
            catalog = make_catalog(catalog_name, properties)
            connections.callback(catalog.close)
            return catalog

        connector, layout = config["name"], make_layout(config)
        return lambda name: IcebergTable(open_catalog, name, connector, layout)


class DeltaSinkTask(TableSinkTask):
    """Writes to Delta tables."""

    config_def = DELTA_SINK

    @classmethod
    @override
    def make_opener(cls, config: Mapping[str, str], connections: ExitStack) -> Callable[[str], LakeTable]:
        del connections  # deltalake has none
        from kraal.connectors.tables.delta import DeltaLakeTable  # noqa: PLC0415 - an extra

        options, connector, layout = (
            select_prefix(config, STORAGE_PREFIX),
            config["name"],
            make_layout(config),
        )
        return lambda name: DeltaLakeTable(name.replace("s3a://", "s3://", 1), connector, options, layout)


class TableSinkConnector(PassThroughConnector):
    """Writes tables with `tasks.max` tasks, all with the same config."""

    kind = "sink"
    version: ClassVar[str] = __version__
    task_class: ClassVar[type[TableSinkTask]]
    package: ClassVar[str]
    """The package that the connector requires."""

    @classmethod
    @override
    def validate(cls, config: Mapping[str, str | None]) -> Sequence[ConfigValue]:
        config = cls.task_class.translate(config)
        errors = find_conflicts(config)
        if importlib.util.find_spec(cls.package) is None:
            errors["table"] = (
                f"The package {cls.package} is not installed on the worker: pip install 'kraal[lake]'"
            )
        catalog_type = config.get(f"{CATALOG_PREFIX}type") or ""
        if (package := CATALOG_PACKAGES.get(catalog_type)) and importlib.util.find_spec(package) is None:
            errors[f"{CATALOG_PREFIX}type"] = (
                f"A catalog of type {catalog_type} requires the package {package}, which is not installed on the "
                f"worker: pip install 'pyiceberg[{catalog_type}]'"
            )
        return [
            replace(value, errors=(*value.errors, errors[value.name])) if value.name in errors else value
            for value in super().validate(config)
        ]

    @override
    def check(self, config: Mapping[str, str]) -> None:
        self.config_def.parse(self.task_class.translate(config))

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self._config] * max_tasks

    @classmethod
    @override
    def open_target(cls, config: Mapping[str, str], worker: WorkerView) -> ReadableTarget:
        from kraal.connectors.tables.target import TableTarget  # noqa: PLC0415 - imports Spark

        translated = cls.task_class.translate(config)
        settings = make_writer_settings(cls.config_def.parse(translated))
        if not make_template(translated).is_constant:
            raise NotComparable("the connector writes several tables, and a proof compares a single one")
        if settings.changes.marks_deletes:
            raise NotComparable("deletes are marked in the rows (delete.handling.mode=rewrite)")
        if settings.evolution not in {EVOLVE, FAIL}:
            raise NotComparable(
                f"records may lack values in the table (schema.evolution={settings.evolution})"
            )
        connections = ExitStack()
        table = cls.task_class.open_table(config, connections)
        return TableTarget(table, settings.changes, connections.close)

    @override
    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Set the offsets in the tables, which tasks prefer to those of the consumer group."""
        for name, partitions in self._find_tables(config, offsets.keys()).items():
            with self._open(config, name) as table:
                _set_offsets(table, {partition: offsets[partition] for partition in partitions})
        return True

    @override
    def stored_sink_partitions(
        self, config: Mapping[str, str], committed: Collection[TopicPartition]
    ) -> Collection[TopicPartition]:
        """Return the partitions in the tables of all topics in `topics` and `committed`."""
        topics = {name.strip() for name in config.get("topics", "").split(",")} - {""}
        candidates = {*committed, *(TopicPartition(topic, 0) for topic in topics)}
        partitions: set[TopicPartition] = set()
        for name, members in self._find_tables(config, candidates).items():
            with _explain_unavailable_table(), self._open(config, name) as table:
                partitions |= set(table.find_partitions({p.topic for p in members}))
        return partitions

    def _find_tables(
        self, config: Mapping[str, str], partitions: Collection[TopicPartition]
    ) -> Mapping[str, Collection[TopicPartition]]:
        """Return the tables that store the offsets of partitions. Raises ValueError."""
        template = make_template(self.task_class.translate(config))
        if template.has_routes:
            raise ValueError(
                f"The tables of {config['name']} depend on the field {template.route_field} of the records, so it is "
                "unknown which ones contain offsets. To write records again, drop the tables and create a connector "
                "with another name"
            )
        tables: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            tables.setdefault(template.get_name(partition.topic), []).append(partition)
        return tables

    def _open(self, config: Mapping[str, str], name: str) -> AbstractContextManager[LakeTable]:
        return self.task_class.open_briefly(self.task_class.translate(config), name)


def _set_offsets(table: LakeTable, offsets: Mapping[TopicPartition, int | None]) -> None:
    """Set the offsets in a table. Raises ValueError if it is not available."""
    for _ in range(MAX_ATTEMPTS):
        with _explain_unavailable_table():
            try:
                table.set_offsets(table.load(offsets.keys()), offsets)
            except Conflict:
                continue
        return
    raise ValueError(f"{table.name}: the offsets cannot be changed, because other writers commit; try again")


@contextmanager
def _explain_unavailable_table() -> Iterator[None]:
    """Raise a temporary error as one of the request."""
    try:
        yield
    except RetriableError as exc:
        raise ValueError(str(exc)) from exc


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
