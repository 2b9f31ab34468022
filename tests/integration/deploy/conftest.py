"""A worker with metrics and traces, shared by the tests in this directory, which do not stop it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.fakes.servers.otlp import Collector, collector


@pytest.fixture(scope="package")
def traces() -> Iterator[Collector]:
    """Collector that receives the traces of the worker."""
    with collector() as made:
        yield made


@pytest.fixture(scope="package")
def cluster(
    kafka: Broker, traces: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProcessCluster]:
    """A running worker. Tests must delete their connectors and not stop it."""
    made = ProcessCluster(
        directory=tmp_path_factory.mktemp("watched"),
        bootstrap=kafka.bootstrap,
        properties={"tracing.enabled": "true"},
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", traces.endpoint)
            patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
            made.start(1)
        yield made
    finally:
        made.close()
