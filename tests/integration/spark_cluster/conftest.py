"""Fixture: one Spark cluster per module, because it consists of seven processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.spark_cluster.environment import SparkEnvironment, start_environment


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEnvironment]:
    """Run the cluster and the broker of the module."""
    environment = start_environment(tmp_path_factory.mktemp("cluster"))
    yield environment
    environment.close()
