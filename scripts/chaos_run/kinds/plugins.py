"""Connectors whose tasks sleep and hang on command; they run in the workers.

The sinks are Kraal's own; they execute commands before each batch, as if the target were slow or did not respond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from kraal.connectors.file.sink import FileStreamSinkConnector, FileStreamSinkTask
from kraal.connectors.pass_through import PassThroughConnector
from kraal.connectors.spark.sink import SparkSinkConnector, SparkSinkTask
from kraal.plugins.api import (
    ConfigDef,
    Offset,
    SinkBatch,
    SourceBatch,
    SourcePartition,
    SourceTask,
    TaskContext,
)
from scripts.chaos_run.kinds.orders import COMMANDS_KEY, Commands

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HANG_IN: Final = "chaos.hang.in"
"""Config key that names the call in which the tasks of a source hang: `start`, `batch` or `stop`."""


class HangingFileSinkTask(FileStreamSinkTask):
    """A task that executes commands before each batch and records each written batch."""

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        self._commands = Commands(Path(config[COMMANDS_KEY]))
        super().start(config, context)

    @override
    def write(self, batch: SinkBatch) -> None:
        self._commands.execute()
        super().write(batch)
        self._commands.record_written(batch.ranges)


class HangingFileSinkConnector(FileStreamSinkConnector):
    """A sink that writes to one file, and whose tasks sleep and hang on command."""

    task_class = HangingFileSinkTask


class HangingFilesSinkTask(SparkSinkTask):
    """A task that executes commands before each batch and records each written batch."""

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        self._commands = Commands(Path(config[COMMANDS_KEY]))
        super().start(config, context)

    @override
    def write(self, batch: SinkBatch) -> None:
        self._commands.execute()
        super().write(batch)
        self._commands.record_written(batch.ranges)


class HangingFilesSinkConnector(SparkSinkConnector):
    """A sink that writes files in a directory, and whose tasks sleep and hang on command."""

    task_class = HangingFilesSinkTask


class HangingSourceTask(SourceTask):
    """A task that returns no records and executes commands in one of its calls."""

    poll_interval_s = 0.5

    def __init__(self) -> None:
        self._call = ""
        self._commands = Commands(Path())

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        del offsets, context
        self._call, self._commands = config[HANG_IN], Commands(Path(config[COMMANDS_KEY]))
        self._execute("start")

    @override
    def poll(self) -> SourceBatch | None:
        return SourceBatch(offsets={}, discover=self._discover) if self._call == "batch" else None

    @override
    def stop(self) -> None:
        self._execute("stop")

    def _discover(self, spark: SparkSession) -> None:
        del spark
        self._execute("batch")

    def _execute(self, call: str) -> None:
        if call == self._call:
            self._commands.execute()


class HangingSourceConnector(PassThroughConnector):
    """A source with `tasks.max` hanging tasks."""

    kind = "source"
    version: ClassVar[str] = "1"
    config_def: ClassVar[ConfigDef] = ConfigDef([])
    task_class = HangingSourceTask

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self._config] * max_tasks
