"""Tests for offsets over REST in a cluster (KIP-875), and for migration with offsets (KIP-980)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kraal.broker.broker import Broker
from kraal.cli.main import main
from kraal.client.migrate import Cluster as Connect
from kraal.kafka.sink_offset_requests import KafkaGroupOffsets
from kraal.plugins.registry import Registry
from kraal.testing import ProcessCluster
from kraal.testing.process import Answer, WorkerProcess
from tests.fakes.spark.pipe import Pipe, create_topic
from tests.fakes.workers.rest_worker import rest_worker

pytestmark = pytest.mark.ci

ALTERED = {"message": "The offsets for this connector have been altered successfully"}
RESET = {"message": "The offsets for this connector have been reset successfully"}
LINE_BYTES = 84


def expected_offsets(pipe: Pipe, line_count: int) -> dict[str, list[Any]]:
    """Return the offsets of a pipe's two connectors after `line_count` lines."""
    source = {
        "partition": {"filename": str(pipe.source_file)},
        "offset": {"position": line_count * LINE_BYTES},
    }
    sink = {
        "partition": {"kafka_topic": pipe.topic, "kafka_partition": 0},
        "offset": {"kafka_offset": line_count},
    }
    return {pipe.source: [source], pipe.sink: [sink]}


def current_offsets(worker: WorkerProcess, pipe: Pipe) -> dict[str, list[Any]]:
    """Request the offsets of a pipe's two connectors from a worker."""
    return {
        name: worker.get(f"/connectors/{name}/offsets").body["offsets"] for name in (pipe.source, pipe.sink)
    }


def delivered_lines(pipe: Pipe) -> list[int]:
    return [int(line[:10]) for line in pipe.sink_lines()]


def test_offset_requests_work_on_any_worker(pipe: Pipe, cluster: ProcessCluster) -> None:
    pipe.write(10)
    pipe.worker.wait_until("ten lines were delivered", pipe.is_through_exactly)
    cluster.wait_until(
        "all workers returned the offsets",
        lambda: all(current_offsets(worker, pipe) == expected_offsets(pipe, 10) for worker in cluster.alive),
    )
    for worker, name in zip(cluster.workers, (pipe.source, pipe.sink), strict=False):
        assert worker.ask("PUT", f"/connectors/{name}/stop").status == 204
        # `ask` retries while the tasks are stopping.
        body = {"offsets": expected_offsets(pipe, 6)[name]}
        assert worker.ask("PATCH", f"/connectors/{name}/offsets", body) == Answer(200, ALTERED)
    assert [current_offsets(worker, pipe) for worker in cluster.alive] == [expected_offsets(pipe, 6)] * 3
    for name in (pipe.sink, pipe.source):
        assert cluster.workers[2].ask("PUT", f"/connectors/{name}/resume").status == 202
    expected = [*range(10), *range(6, 10), *range(6, 10)]
    cluster.wait_until(
        "lines were delivered again from the altered offsets", lambda: delivered_lines(pipe) == expected
    )
    for name in (pipe.source, pipe.sink):
        path = f"/connectors/{name}"
        assert cluster.workers[0].ask("PUT", f"{path}/stop").status == 204
        for worker in cluster.workers[:2]:
            assert worker.ask("DELETE", f"{path}/offsets") == Answer(200, RESET)
    no_offsets: list[Any] = []
    assert [current_offsets(worker, pipe) for worker in cluster.alive] == [
        {pipe.source: no_offsets, pipe.sink: no_offsets}
    ] * 3


def test_migrated_connectors_start_at_their_old_offsets(
    cluster: ProcessCluster, kafka: Broker, tmp_path: Path
) -> None:
    pipe = Pipe(cluster.workers[0], tmp_path)
    pipe.write(10)
    create_topic(kafka.bootstrap, pipe.topic)
    groups = KafkaGroupOffsets({"bootstrap.servers": kafka.bootstrap}, scratch=tmp_path)
    with rest_worker(Registry.load(), groups) as old_worker:
        old_api = Connect(old_worker.url)
        for name, config in ((pipe.source, pipe.source_config), (pipe.sink, pipe.sink_config)):
            body = {"name": name, "config": config, "initial_state": "STOPPED"}
            old_api.ask("POST", "connectors", body=body)
        old_api.ask(
            "PATCH",
            "connectors",
            pipe.source,
            "offsets",
            body={"offsets": expected_offsets(pipe, 4)[pipe.source]},
        )
        old_api.ask(
            "PATCH",
            "connectors",
            pipe.sink,
            "offsets",
            body={"offsets": expected_offsets(pipe, 0)[pipe.sink]},
        )
        command = ["migrate", "--from", old_worker.url, "--to", cluster.workers[1].url]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
    assert current_offsets(cluster.workers[2], pipe) == {
        pipe.source: expected_offsets(pipe, 4)[pipe.source],
        pipe.sink: expected_offsets(pipe, 0)[pipe.sink],
    }
    for name in (pipe.source, pipe.sink):
        cluster.wait_for_states(name, ["STOPPED"])
        assert cluster.workers[2].ask("PUT", f"/connectors/{name}/resume").status == 202
    cluster.wait_until(
        "the connectors continued at the offsets", lambda: delivered_lines(pipe) == [4, 5, 6, 7, 8, 9]
    )
    pipe.delete()
