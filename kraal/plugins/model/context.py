"""The runtime's interface for connectors and tasks, and the requirements of connectors on a Spark cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kraal.config.connector.batches import DEFAULT_MAX_RECORDS
from kraal.metrics.table_reports import TableReport, ignore_report


class WorkerView(Protocol):
    """The properties of the worker that are visible to plugins."""

    @property
    def bootstrap_servers(self) -> str:
        """The Kafka bootstrap servers, as in the worker config."""

    @property
    def spark_is_local(self) -> bool:
        """Whether Spark runs in processes of this machine, so that executors can read its files."""

    @property
    def scratch(self) -> str:
        """A directory owned by this worker, for files that may outlive the worker; the directory is never cleared."""


class ConnectorContext(Protocol):
    """The runtime's interface for a connector; thread-safe."""

    def request_task_reconfiguration(self) -> None:
        """Request a call of `task_configs`, because the work to divide has changed."""

    def raise_error(self, error: BaseException) -> None:
        """Set the connector's state to FAILED, with `error`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """The environment in which a task runs."""

    connector: str
    task: int
    worker: WorkerView
    connector_config: Mapping[str, str]
    """The complete config of the connector, with variables resolved."""
    max_records: int = DEFAULT_MAX_RECORDS
    """`max.records.per.batch`: the limit that a source should observe; the runtime applies it to a sink's batches."""
    report_table: Callable[[TableReport], None] = ignore_report
    """Receives the state of a table that a sink task writes, for `kraal table`, the dashboard and metrics. The latest
    report of each table counts. Call it in a method of the task, on the thread of this method. Returns at once."""


class ClusterNeeds:
    """The requirements of a connector on a Spark cluster, checked before the connector is created.

    Configs may be invalid. By default, executors need neither files nor processes of the worker's machine.
    """

    @classmethod
    def needs_local_spark(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return the keys whose values require a local Spark, each with the reason as a clause."""
        del config
        return {}

    @classmethod
    def shared_paths(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return the keys of files and directories that executors access, each with the absolute path."""
        del config
        return {}
