"""Tests that tables of both formats equal a PostgreSQL table after faults amid commits, and after its types widen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraal.broker.broker import Broker, free_port
from kraal.testing import ProcessCluster
from tests.fakes.tables.sinks import find_owner
from tests.integration.java_plugins.flows import plugin_jvm
from tests.integration.tables.faults import (
    freeze_worker,
    kill_workers,
    lock_catalog,
    rebalance,
    stop_broker,
)
from tests.integration.tables.pipeline import Environment, Pipeline, open_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SEEDS = (1, 2)
KINDS = ("iceberg", "delta")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Run two workers, a database, and a broker that tests kill."""
    directory = tmp_path_factory.mktemp("faults")
    broker = Broker(directory / "kafka", free_port())
    with open_environment(
        ProcessCluster(0, directory=directory, broker=broker), directory, workers=2
    ) as result:
        yield result


def kill_debezium(pipeline: Pipeline) -> None:
    """Kill the JVM that runs Debezium."""
    cluster = pipeline.cluster
    for _ in range(2):
        plugin_jvm(cluster.workers[find_owner(cluster, pipeline.source)]).kill()
        pipeline.wait_for_progress()


FAULTS: tuple[Callable[[Pipeline], None], ...] = (
    kill_workers,
    kill_debezium,
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
