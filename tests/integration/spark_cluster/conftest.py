"""One Spark cluster a module, because it is seven processes with their workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.spark_cluster.place import Place, opened


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The module's cluster and broker."""
    made = opened(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()
