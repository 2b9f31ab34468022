"""One Spark cluster per module, because it consists of seven processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.spark_cluster.place import Place, opened


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return the cluster and broker of the module."""
    made = opened(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()
