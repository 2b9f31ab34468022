"""Fixtures for tests of connectors: `kraal_cluster`, `kraal_processes`, `kraal_seed`.

pytest loads this module through its entry point. The rest of Kraal is imported only when a fixture is requested, so
suites without these fixtures do not start more slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kraal.testing import Cluster, ProcessCluster
    from kraal.testing.local import Plugins

_DEFAULT_SEED = 0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--kraal-seed`."""
    parser.getgroup("kraal").addoption(
        "--kraal-seed",
        type=int,
        default=_DEFAULT_SEED,
        metavar="NUMBER",
        help="the seed of kraal_cluster, which determines the order of all messages (default: %(default)s)",
    )


@pytest.fixture
def kraal_seed(request: pytest.FixtureRequest) -> int:
    """Return the seed of `kraal_cluster`, from `--kraal-seed`; tests can parametrize it."""
    return int(request.config.getoption("--kraal-seed"))


@pytest.fixture
def kraal_cluster(kraal_seed: int) -> Iterator[Callable[..., Cluster]]:
    """Yield a function that creates settled clusters: `kraal_cluster(workers=3, plugins=[MyConnector])`.

    The function accepts the arguments of `kraal.testing.Cluster`. All clusters are closed after the test, even if the
    test failed.
    """
    from kraal.testing import Cluster  # noqa: PLC0415 - imported only when requested

    clusters: list[Cluster] = []

    def make(workers: int = 3, *, plugins: Plugins = (), **options: object) -> Cluster:
        cluster = Cluster(workers, plugins=plugins, **{"seed": kraal_seed, **options})  # type: ignore[arg-type]
        clusters.append(cluster)
        cluster.settle()
        return cluster

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture(scope="session")
def kraal_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Yield a cluster of two worker processes, shared by all tests of a session.

    Startup takes about ten seconds. Tests must leave both workers running.
    """
    from kraal.testing import ProcessCluster  # noqa: PLC0415 - imported only when requested

    with ProcessCluster(2, directory=tmp_path_factory.mktemp("kraal")) as cluster:
        yield cluster
