"""Tests that tables of both formats equal a topic of plain rows, or of changes by key, after faults amid commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from kraal.broker.broker import Broker, free_port
from kraal.testing import ProcessCluster
from tests.fakes.tables.sinks import TableSink
from tests.fakes.tables.topic_changes import PARTITIONS, TopicChanges
from tests.integration.java_plugins.debezium.test_postgresql import JSON_CONVERTER
from tests.integration.java_plugins.debezium.test_proofs import prove
from tests.integration.java_plugins.flows import unique_name
from tests.integration.tables.faults import (
    TablePipeline,
    freeze_worker,
    kill_spark,
    kill_workers,
    lock_catalog,
    rebalance,
    stop_broker,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

KINDS = ("iceberg", "delta")
BACKLOG = 4000
"""Records before the connectors start; Spark reads them, because they are many."""
Mode = Literal["append", "upsert"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """Run two workers, and a broker that tests kill."""
    directory = tmp_path_factory.mktemp("topics")
    properties = {
        "consumer.session.timeout.ms": "6000",
        "consumer.auto.offset.reset": "earliest",
        "key.converter": JSON_CONVERTER,
        "value.converter": JSON_CONVERTER,
    }
    broker = Broker(directory / "kafka", free_port())
    with ProcessCluster(2, directory=directory, broker=broker, properties=properties) as result:
        yield result


class TopicPipeline:
    """A topic, and sinks that write its records to tables."""

    source = None

    def __init__(self, cluster: ProcessCluster, directory: Path, mode: Mode) -> None:
        """Create the connectors, and wait until the sinks have the first records."""
        self.cluster = cluster
        topic = unique_name(mode)
        self.changes = TopicChanges(cluster.bootstrap, topic, mode, seed=43)
        self.changes.produce(BACKLOG)
        self.sinks = [
            TableSink(kind, f"{topic}-{kind}", directory / kind, mode, topic=topic, partitions=PARTITIONS)
            for kind in KINDS
        ]
        for sink in self.sinks:
            (directory / sink.kind).mkdir()
            cluster.create(sink.name, sink.config)
        self._wait_for(dict(self.changes.ends))

    def wait_for_progress(self) -> None:
        """Wait until the tables contain all records that the topic has now, and a later one."""
        self._wait_for({partition: end + 1 for partition, end in self.changes.ends.items()})

    def assert_tables_equal_the_topic(self) -> None:
        """Compare the rows of all tables with those that result from the topic."""
        self._wait_for(self.changes.ends)
        expected = Counter((str(number), name) for number, name in self.changes.rows.items())
        for sink in self.sinks:
            self.cluster.wait_for_states(sink.name, ["RUNNING"] * 3)
            assert sink.offsets() == self.changes.ends
            stored = sink.read("SELECT id::VARCHAR, name FROM stored")
            assert Counter((number, name) for number, name in stored.rows) == expected, sink.kind
            state = prove(self.cluster, sink.name)
            assert state["state"] == "PROVED", state
            self.cluster.delete(sink.name)

    def _wait_for(self, ends: dict[int, int]) -> None:
        for sink in self.sinks:
            self.cluster.wait_until(
                f"{sink.name} has written the records",
                lambda: all(sink.offsets().get(number, 0) >= end for number, end in ends.items()),  # noqa: B023 - called at once
            )


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize(
    "fault",
    [kill_workers, kill_spark, freeze_worker, stop_broker, lock_catalog, rebalance],
    ids=lambda fault: fault.__name__,
)
def test_tables_equal_the_topic_after_faults(
    cluster: ProcessCluster, tmp_path: Path, fault: Callable[[TablePipeline], None], mode: Mode
) -> None:
    pipeline = TopicPipeline(cluster, tmp_path, mode)
    with pipeline.changes.flowing():
        pipeline.wait_for_progress()
        fault(pipeline)
        pipeline.wait_for_progress()
    pipeline.assert_tables_equal_the_topic()
