"""Tests that tables of both formats equal a PostgreSQL table, of which Debezium captures the changes, despite kills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.integration.java_plugins.flows import plugin_jvm
from tests.integration.tables.pipeline import Environment, Pipeline, open_environment

pytestmark = pytest.mark.ci

SEED = 43


@pytest.fixture(scope="module")
def environment(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """Run a worker and a database."""
    directory = tmp_path_factory.mktemp("lake")
    cluster = ProcessCluster(0, directory=directory, bootstrap=kafka.bootstrap)
    with open_environment(cluster, directory, workers=1) as result:
        yield result


def test_tables_equal_the_database_after_kills_and_schema_changes(
    environment: Environment, tmp_path: Path
) -> None:
    cluster = environment.cluster
    (worker,) = cluster.workers
    pipeline = Pipeline(environment, tmp_path, ["iceberg", "delta"], seed=SEED)
    with pipeline.changes.flowing():
        plugin_jvm(worker).kill()
        pipeline.wait_for_progress()
        pipeline.changes.alter()
        worker.kill()
        cluster.start_all([worker])
        pipeline.wait_for_progress()
    pipeline.assert_tables_equal_the_database()
    pipeline.delete()
