"""Tests that tables equal their topics after the workers of IcebergSink and DeltaSink are killed amid commits."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from kraal.broker.broker import Broker
from kraal.testing import ProcessCluster, WorkerProcess
from scripts.harness.proofs import prove
from tests.fakes.tables.sinks import TableSink, find_owner
from tests.fakes.tables.topic_changes import PARTITIONS, TopicChanges

pytestmark = pytest.mark.ci

BACKLOG = 4000
"""Records before the connectors start; Spark reads them, because they are many."""
KILLS = 3


@pytest.fixture(scope="module")
def two_workers(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    json_converter = "org.apache.kafka.connect.json.JsonConverter"
    properties = {
        "consumer.session.timeout.ms": "6000",
        "consumer.auto.offset.reset": "earliest",
        "key.converter": json_converter,
        "value.converter": json_converter,
    }
    cluster = ProcessCluster(
        workers=2,
        directory=tmp_path_factory.mktemp("tables"),
        bootstrap=kafka.bootstrap,
        properties=properties,
    )
    with cluster:
        yield cluster


@pytest.mark.one_a_day("mode")
@pytest.mark.parametrize("mode", ["cdc", "append", "upsert"])
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_table_equals_the_topic_after_kills(
    kind: str,
    mode: Literal["append", "upsert", "cdc"],
    two_workers: ProcessCluster,
    kafka: Broker,
    tmp_path: Path,
) -> None:
    name = f"{kind}-{mode}-{uuid.uuid4().hex[:8]}"
    changes = TopicChanges(kafka.bootstrap, name, mode, seed=7)
    changes.produce(BACKLOG)
    two_workers.start_dead()
    sink = TableSink(kind, name, tmp_path, mode, partitions=PARTITIONS)
    two_workers.create(name, sink.config)
    two_workers.wait_until("the backlog is in the table", lambda: sum(sink.offsets().values()) >= BACKLOG)
    with changes.flowing():
        for _ in range(KILLS):
            offsets = sink.offsets()
            two_workers.wait_until("commits follow", lambda: sink.offsets() != offsets)  # noqa: B023 - called at once
            owner = find_owner(two_workers, name)
            two_workers.kill_worker(owner)  # as `kill -9` does
            offsets = sink.offsets()
            two_workers.wait_until("other tasks commit", lambda: sink.offsets() != offsets)  # noqa: B023
            two_workers.start_worker(owner)
            two_workers.wait_for_states(name, ["RUNNING"] * 3)
    two_workers.wait_until("all records are in the table", lambda: sink.offsets() == changes.ends)
    rows = sink.rows()
    assert len(rows) == len({item["id"] for item in rows}), "a row was written twice"
    assert {item["id"]: item["name"] for item in rows} == changes.rows
    proof = prove(two_workers.workers[0], name)
    assert proof["state"] == "PROVED", proof
    two_workers.delete(name)


def read_report(worker: WorkerProcess, name: str) -> tuple[int | None, Mapping[int, int], list[int]]:
    """Return the rows, the offsets and the lags by partition of a connector's table, as a worker reports them."""
    body: Any = worker.get(f"/connectors/{name}/tables").body
    [table] = body["tables"] or [{"rows": None, "partitions": []}]
    partitions = table["partitions"]
    offsets = {each["partition"]: each["offset"] for each in partitions}
    return table["rows"], offsets, [each["lag_records"] for each in partitions]


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_table_is_reported_and_its_offsets_are_changed_over_rest(
    kind: str, two_workers: ProcessCluster, kafka: Broker, tmp_path: Path
) -> None:
    name = f"{kind}-offsets-{uuid.uuid4().hex[:8]}"
    changes = TopicChanges(kafka.bootstrap, name, "append", seed=7)
    changes.produce(20)
    two_workers.start_dead()
    sink = TableSink(kind, name, tmp_path, "append", partitions=PARTITIONS)
    two_workers.create(name, sink.config)
    two_workers.wait_until("the records are in the table", lambda: sink.offsets() == changes.ends)
    for worker in two_workers.workers:
        two_workers.wait_until(
            "the worker reports the table",
            lambda: read_report(worker, name) == (20, changes.ends, [0, 0]),  # noqa: B023 - called at once
        )
    two_workers.stop(name)
    two_workers.wait_for_states(name, ["STOPPED"])
    worker = two_workers.workers[0]
    two_workers.wait_until(
        "the offsets are deleted", lambda: worker.delete(f"/connectors/{name}/offsets").status == 200
    )
    assert sink.offsets() == {}
    two_workers.resume(name)
    two_workers.wait_until("the records are in the table again", lambda: sink.offsets() == changes.ends)
    assert len(sink.rows()) == 40
    two_workers.delete(name)
