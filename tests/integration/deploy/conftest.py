"""Fixtures: a shared worker with tracing, and the collector of its traces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster
from tests.fakes.servers.otlp import Collector, collector


@pytest.fixture(scope="package")
def trace_collector() -> Iterator[Collector]:
    """Run a collector that receives the traces of the worker."""
    with collector() as running_collector:
        yield running_collector


@pytest.fixture(scope="package")
def cluster(
    kafka: Broker, trace_collector: Collector, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProcessCluster]:
    """Run one worker. Tests must delete their connectors, and must not stop the worker."""
    running_cluster = ProcessCluster(
        directory=tmp_path_factory.mktemp("watched"),
        bootstrap=kafka.bootstrap,
        properties={"tracing.enabled": "true"},
    )
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", trace_collector.endpoint)
            patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
            running_cluster.start(1)
        yield running_cluster
    finally:
        running_cluster.close()
