"""Tests that tables of both formats equal a PostgreSQL table after faults amid commits, and after its types widen."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kraal.broker.broker import Broker, free_port
from kraal.testing import ProcessCluster
from tests.fakes.tables.sinks import find_owner
from tests.integration.java_plugins.flows import plugin_jvm
from tests.integration.tables.pipeline import Environment, Pipeline, open_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SEEDS = (1, 2)
KINDS = ("iceberg", "delta")
OUTAGE_S = 15.0
TASKS = 2


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Run two workers, a database, and a broker that tests kill."""
    directory = tmp_path_factory.mktemp("faults")
    broker = Broker(directory / "kafka", free_port())
    with open_environment(
        ProcessCluster(0, directory=directory, broker=broker), directory, workers=2
    ) as result:
        yield result


def kill_workers(pipeline: Pipeline) -> None:
    """Kill the workers that write the tables and read the database, one after another."""
    cluster = pipeline.cluster
    for name in (pipeline.sinks[0].name, pipeline.sinks[1].name, pipeline.source):
        owner = find_owner(cluster, name)
        cluster.kill_worker(owner)
        pipeline.wait_for_progress()
        cluster.start_worker(owner)


def kill_jvm(pipeline: Pipeline) -> None:
    """Kill the JVM that runs Debezium."""
    cluster = pipeline.cluster
    for _ in range(2):
        plugin_jvm(cluster.workers[find_owner(cluster, pipeline.source)]).kill()
        pipeline.wait_for_progress()


def freeze_worker(pipeline: Pipeline) -> None:
    """Suspend a worker until the other one has written its share of the tables.

    The other worker runs the source, because two instances of Debezium could write changes out of order.
    """
    cluster = pipeline.cluster
    (frozen,) = {0, 1} - {find_owner(cluster, pipeline.source)}
    for _ in range(2):
        cluster.freeze_worker(frozen)
        try:
            cluster.workers[1 - frozen].wait_until(
                "the other worker ran all tasks", lambda: owns_all_tasks(pipeline, 1 - frozen)
            )
            pipeline.wait_for_progress()
        finally:
            cluster.thaw_worker(frozen)
        pipeline.wait_for_progress()


def owns_all_tasks(pipeline: Pipeline, number: int) -> bool:
    """Return whether one worker runs all connectors and tasks, as it reports itself."""
    worker = pipeline.cluster.workers[number]
    owners = [pipeline.cluster.owners(sink.name, worker) for sink in pipeline.sinks]
    worker_id = worker.url.rpartition("/")[2]
    return all(set(each.values()) == {worker_id} and len(each) == TASKS + 1 for each in owners)


def stop_broker(pipeline: Pipeline) -> None:
    """Kill the broker, and start it again later."""
    pipeline.cluster.kill_broker()
    time.sleep(OUTAGE_S)
    pipeline.cluster.start_broker()


def lock_catalog(pipeline: Pipeline) -> None:
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


def rebalance(pipeline: Pipeline) -> None:
    """Add a worker, and stop it again."""
    cluster = pipeline.cluster
    cluster.start_all([cluster.add(cluster.workers[0].properties)])
    pipeline.wait_for_progress()
    assert cluster.stop_worker(len(cluster.workers) - 1) == 0


FAULTS: tuple[Callable[[Pipeline], None], ...] = (
    kill_workers,
    kill_jvm,
    freeze_worker,
    stop_broker,
    lock_catalog,
    rebalance,
)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_tables_equal_the_database_after_faults(
    environment: Environment, tmp_path: Path, fault: Callable[[Pipeline], None], seed: int
) -> None:
    pipeline = Pipeline(environment, tmp_path, KINDS, seed=seed, partitions=seed)
    with pipeline.changes.flowing():
        fault(pipeline)
        pipeline.wait_for_progress()
        pipeline.changes.alter()
        pipeline.wait_for_progress()
    pipeline.assert_tables_equal_the_database()
    pipeline.delete()


def test_iceberg_table_follows_wider_types_despite_a_kill(environment: Environment, tmp_path: Path) -> None:
    pipeline = Pipeline(environment, tmp_path, ["iceberg"], seed=3)
    cluster = environment.cluster
    with pipeline.changes.flowing():
        owner = find_owner(cluster, pipeline.sinks[0].name)
        pipeline.changes.widen()
        cluster.kill_worker(owner)
        pipeline.wait_for_progress()
        cluster.start_worker(owner)
    pipeline.assert_tables_equal_the_database()
    pipeline.delete()
