"""Faults of a cluster with table sinks, for tests that compare the tables afterwards."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Final, Protocol

from kraal.testing import ProcessCluster
from tests.fakes.tables.sinks import TableSink, find_owner

OUTAGE_S: Final = 15.0
_TASKS: Final = 2


class TablePipeline(Protocol):
    """Table sinks on a cluster of two workers, while records flow."""

    @property
    def cluster(self) -> ProcessCluster:
        """The cluster, with its own broker."""

    @property
    def sinks(self) -> Sequence[TableSink]:
        """The sinks of both formats."""

    @property
    def source(self) -> str | None:
        """The name of the source connector; None if the test produces the records."""

    def wait_for_progress(self) -> None:
        """Wait until the tables contain all records that the topic has now, and a later one."""


def kill_workers(pipeline: TablePipeline) -> None:
    """Kill the workers that write the tables and run the source, one after another."""
    cluster = pipeline.cluster
    names = [sink.name for sink in pipeline.sinks] + ([] if pipeline.source is None else [pipeline.source])
    for name in names:
        owner = find_owner(cluster, name)
        cluster.kill_worker(owner)
        pipeline.wait_for_progress()
        cluster.start_worker(owner)


def kill_spark(pipeline: TablePipeline) -> None:
    """Kill the JVMs of both workers, if they run, twice."""
    for _ in range(2):
        for number in range(len(pipeline.cluster.workers)):
            with suppress(KeyError):
                pipeline.cluster.kill_spark(number)
        pipeline.wait_for_progress()


def freeze_worker(pipeline: TablePipeline) -> None:
    """Suspend a worker until the other one has written its share of the tables.

    The other worker runs the source, if any, because two instances of Debezium could write changes out of order.
    """
    cluster = pipeline.cluster
    running = 1 - find_owner(cluster, pipeline.sinks[0].name)
    if pipeline.source is not None:
        running = find_owner(cluster, pipeline.source)
    for _ in range(2):
        cluster.freeze_worker(1 - running)
        try:
            cluster.workers[running].wait_until(
                "the other worker ran all tasks", lambda: _owns_all_tasks(pipeline, running)
            )
            pipeline.wait_for_progress()
        finally:
            cluster.thaw_worker(1 - running)
        pipeline.wait_for_progress()


def _owns_all_tasks(pipeline: TablePipeline, number: int) -> bool:
    """Return whether one worker runs all connectors and tasks, as it reports itself."""
    worker = pipeline.cluster.workers[number]
    owners = [pipeline.cluster.owners(sink.name, worker) for sink in pipeline.sinks]
    worker_id = worker.url.rpartition("/")[2]
    return all(set(each.values()) == {worker_id} and len(each) == _TASKS + 1 for each in owners)


def stop_broker(pipeline: TablePipeline) -> None:
    """Kill the broker, and start it again later."""
    pipeline.cluster.kill_broker()
    time.sleep(OUTAGE_S)
    pipeline.cluster.start_broker()


def lock_catalog(pipeline: TablePipeline) -> None:
    """Lock the database of the Iceberg catalog until a task has failed to use it."""
    cluster = pipeline.cluster
    sink = next(sink for sink in pipeline.sinks if sink.kind == "iceberg")
    sizes = {worker: len(worker.log_text()) for worker in cluster.alive}
    with closing(sqlite3.connect(sink.catalog, timeout=60, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        cluster.wait_until(
            "a task has reported that the catalog is not available",
            lambda: any(
                "the catalog or the storage is not available" in worker.log_text()[size:]
                for worker, size in sizes.items()
            ),
        )


def rebalance(pipeline: TablePipeline) -> None:
    """Add a worker, and stop it again."""
    cluster = pipeline.cluster
    cluster.start_all([cluster.add(cluster.workers[0].properties)])
    pipeline.wait_for_progress()
    assert cluster.stop_worker(len(cluster.workers) - 1) == 0
