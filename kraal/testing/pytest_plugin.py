"""Fixtures for tests of connectors: `kraal_cluster`, `kraal_processes`, `kraal_seed`.

pytest loads this module by its entry point. It imports nothing of Kraal until a fixture is requested, so it costs
nothing in other suites.
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
        help="the seed of kraal_cluster: decides the order of all messages (default: %(default)s)",
    )


@pytest.fixture
def kraal_seed(request: pytest.FixtureRequest) -> int:
    """The seed of `kraal_cluster`, from `--kraal-seed`; tests can parametrize it."""
    return int(request.config.getoption("--kraal-seed"))


@pytest.fixture
def kraal_cluster(kraal_seed: int) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters in this process: `kraal_cluster(workers=3, plugins=[MyConnector])`, a group already.

    Takes the arguments of `kraal.testing.Cluster`; all clusters are closed after the test, even if it failed.
    """
    from kraal.testing import Cluster  # noqa: PLC0415 - see above

    clusters: list[Cluster] = []

    def make(workers: int = 3, *, plugins: Plugins = (), **more: object) -> Cluster:
        cluster = Cluster(workers, plugins=plugins, **{"seed": kraal_seed, **more})  # type: ignore[arg-type]
        clusters.append(cluster)
        cluster.settle()
        return cluster

    yield make
    for each in clusters:
        each.close()


@pytest.fixture(scope="session")
def kraal_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """A cluster of two worker processes with its own broker, shared by all tests of a session.

    It takes about ten seconds to start. Tests must leave both workers running.
    """
    from kraal.testing import ProcessCluster  # noqa: PLC0415 - see above

    with ProcessCluster(2, directory=tmp_path_factory.mktemp("kraal")) as cluster:
        yield cluster
