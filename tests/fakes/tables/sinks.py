"""Table sinks of tests with real workers, and their tables as an independent program reads them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kraal.connectors.tables.sink import DeltaSinkTask, IcebergSinkTask
from kraal.connectors.tables.table import TableState
from kraal.plugins.api import TopicPartition
from kraal.testing import ProcessCluster
from scripts.environments import locked_environment

LOCK: Final = Path(__file__).parents[2] / "lake-reader.lock"
READER: Final = Path(__file__).parents[2] / "tools" / "read_table.py"
READ_TIMEOUT_S: Final = 120.0
INTERVAL_MS: Final = 300


@dataclass(frozen=True)
class StoredRows:
    """The content of a table."""

    types: dict[str, str]
    """The type of each column in DuckDB."""
    rows: list[list[str | None]]


class TableSink:
    """A connector that writes to a table in a directory."""

    def __init__(
        self, kind: str, name: str, directory: Path, mode: str, *, topic: str = "", partitions: int
    ) -> None:
        """Create the config. `kind` is `iceberg` or `delta`; the topic has the name of the connector by default."""
        self.kind, self.name, self.topic = kind, name, topic or name
        self._partitions = [TopicPartition(self.topic, number) for number in range(partitions)]
        self.catalog = directory / "catalog.db"
        """The SQLite database of the catalog, for Iceberg."""
        self.config = {
            "topics": self.topic,
            "tasks.max": "2",
            "write.mode": mode,
            "commit.interval.ms": str(INTERVAL_MS),
        }
        if kind == "delta":
            self._task: type[DeltaSinkTask | IcebergSinkTask] = DeltaSinkTask
            self.config |= {"connector.class": "DeltaSink", "table": str(directory / "orders")}
        else:
            self._task = IcebergSinkTask
            self.config |= {
                "connector.class": "IcebergSink",
                "table": "shop.orders",
                "iceberg.catalog.type": "sql",
                "iceberg.catalog.uri": f"sqlite:///{self.catalog}",
                "iceberg.catalog.warehouse": f"file://{directory}/warehouse",
            }

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table, read by the format's library; none if it does not exist."""
        handle = self._load().handle
        if handle is None:
            return []
        rows = handle.to_pyarrow_table() if self.kind == "delta" else handle.scan().to_arrow()
        return list(rows.to_pylist())

    def offsets(self) -> dict[int, int]:
        """Return the next offset of each partition, as the table stores them."""
        return {partition.partition: end for partition, end in self._load().offsets.items()}

    def read(self, query: str) -> StoredRows:
        """Return the result of a query on the view `stored`, which is the table as DuckDB reads it."""
        location = self.config["table"] if self.kind == "delta" else self._find_metadata()
        result = subprocess.run(
            [str(locked_environment("lake-reader", LOCK)), str(READER), self.kind, location, query],
            capture_output=True, encoding="utf-8", check=False, timeout=READ_TIMEOUT_S,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        types, *rows = map(json.loads, result.stdout.split("\n")[:-1])
        return StoredRows(types, rows)

    def _load(self) -> TableState:
        return self._task.open_table({**self.config, "name": self.name}).load(self._partitions)

    def _find_metadata(self) -> str:
        """Return the file of the table's latest version, which the catalog contains."""
        namespace, _, name = self.config["table"].rpartition(".")
        with closing(sqlite3.connect(self.catalog)) as connection:
            query = (
                "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
            )
            ((location,),) = connection.execute(query, (namespace, name)).fetchall()
        return str(location).removeprefix("file://")


def find_owner(cluster: ProcessCluster, name: str, task: str = "0") -> int:
    """Return the index of the worker that runs a task, after waiting for any rebalance in progress."""
    owners: list[int] = []

    def is_assigned() -> bool:
        with suppress(KeyError, StopIteration):  # unassigned, or assigned to the worker before its restart
            owners.append(cluster.workers.index(cluster.worker(cluster.owners(name)[task])))
        return bool(owners)

    cluster.wait_until("a worker runs the task", is_assigned)
    return owners[0]
