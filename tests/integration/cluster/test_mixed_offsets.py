"""Tests for offset requests with a Java or a Kraal leader: equal responses and visible changes on both workers.

One of the two groups has a Java leader, so every expected message is also compared with Java's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kraal.broker.broker import Broker
from kraal.testing.process import Answer, WorkerProcess
from tests.fakes.spark.pipe import RUNNING, Pipe, create_topic
from tests.fakes.workers.java_worker import JavaWorker, MixedCluster

pytestmark = pytest.mark.slow  # two groups of a Java and a Kraal worker

ALTERED = Answer(200, {"message": "The offsets for this connector have been altered successfully"})
RESET = Answer(200, {"message": "The offsets for this connector have been reset successfully"})
LINE_BYTES = 84


@pytest.fixture(scope="module", params=["java", "kraal"])
def workers(
    request: pytest.FixtureRequest, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[WorkerProcess]]:
    """Run two workers. The first is of the given kind, and leads the group."""
    cluster = MixedCluster(directory=tmp_path_factory.mktemp("mixed-offsets"), bootstrap=kafka.bootstrap)
    starts = [cluster.start_java, cluster.start_kraal]
    if request.param == "kraal":
        starts.reverse()
    try:
        yield [start() for start in starts]
        exit_codes = {type(worker): worker.end() for worker in cluster.workers}
    finally:
        cluster.close()
    assert exit_codes == {JavaWorker: 143, WorkerProcess: 0}


@pytest.fixture
def pipe(workers: list[WorkerProcess], kafka: Broker, tmp_path: Path) -> Iterator[Pipe]:
    """Run a pipe that has delivered ten lines and sends its requests to the follower."""
    new_pipe = Pipe(workers[1], tmp_path)
    create_topic(kafka.bootstrap, new_pipe.topic)
    new_pipe.write(10)
    new_pipe.create()
    for name in (new_pipe.source, new_pipe.sink):
        new_pipe.worker.wait_for_states(name, RUNNING)
    new_pipe.worker.wait_until("ten lines were delivered", new_pipe.is_through_exactly)
    yield new_pipe
    new_pipe.delete()


def source_offsets(pipe: Pipe, position: object) -> list[Any]:
    return [{"partition": {"filename": str(pipe.source_file)}, "offset": {"position": position}}]


def sink_offsets(pipe: Pipe, position: object) -> list[Any]:
    partition = {"kafka_topic": pipe.topic, "kafka_partition": 0}
    return [{"partition": partition, "offset": {"kafka_offset": position}}]


def has_response(worker: WorkerProcess, path: str, expected: Answer) -> bool:
    return worker.get(path) == expected


def alter_offsets(worker: WorkerProcess, name: str, offsets: object) -> tuple[int, str]:
    response = worker.ask("PATCH", f"/connectors/{name}/offsets", {"offsets": offsets})
    return response.status, response.body["message"]


def test_offset_requests_work_on_any_worker_with_any_leader(workers: list[WorkerProcess], pipe: Pipe) -> None:
    leader, follower = workers
    offset_functions = {pipe.source: source_offsets, pipe.sink: sink_offsets}
    end_positions = {pipe.source: 10 * LINE_BYTES, pipe.sink: 10}
    for name, make_offsets in offset_functions.items():
        path = f"/connectors/{name}/offsets"
        expected = Answer(200, {"offsets": make_offsets(pipe, end_positions[name])})
        for worker in workers:
            worker.wait_until(
                "the worker returned the offsets", partial(has_response, worker, path, expected)
            )
        not_stopped_message = (
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
            f"specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
        )
        assert alter_offsets(follower, name, make_offsets(pipe, 1)) == (400, not_stopped_message)
        assert follower.ask("PUT", f"/connectors/{name}/stop").status == 204
        follower.wait_for_states(name, ["STOPPED"])
        for worker in workers:
            assert worker.ask("PATCH", path, {"offsets": make_offsets(pipe, 3)}) == ALTERED
            assert [w.get(path) for w in workers] == [Answer(200, {"offsets": make_offsets(pipe, 3)})] * 2
        for worker in workers:
            assert worker.ask("DELETE", path) == RESET
            assert [w.get(path) for w in workers] == [Answer(200, {"offsets": []})] * 2
    assert (
        leader.ask("PATCH", f"/connectors/{pipe.sink}/offsets", {"offsets": sink_offsets(pipe, 7)}) == ALTERED
    )
    for name in offset_functions:
        assert leader.ask("PUT", f"/connectors/{name}/resume").status == 202
    numbers = [*range(10), 7, 8, 9, *range(10)]
    pipe.worker.wait_until(
        "lines were delivered again from the altered offsets",
        lambda: [int(line[:10]) for line in pipe.sink_lines()] == numbers,
    )


def test_kraal_accepts_initial_offsets_unless_java_leads(workers: list[WorkerProcess], pipe: Pipe) -> None:
    [kraal] = [worker for worker in workers if not isinstance(worker, JavaWorker)]
    [java] = [worker for worker in workers if isinstance(worker, JavaWorker)]
    name = f"{pipe.source}-later"
    body = {
        "name": name,
        "config": {**pipe.source_config, "name": name},
        "initial_state": "STOPPED",
        "initial_offsets": source_offsets(pipe, 3),
    }
    for worker in (java, kraal) if java is workers[0] else (java,):
        response = worker.ask("POST", "/connectors", body)
        assert (response.status, "initial_offsets" in response.body["message"]) == (500, True)
        assert kraal.get(f"/connectors/{name}").status == 404
    if java is workers[0]:
        return
    response = kraal.ask("POST", "/connectors", body)
    assert (response.status, response.body["offsets_status"]) == (201, ALTERED.body["message"])
    for worker in workers:
        path, expected = f"/connectors/{name}/offsets", Answer(200, {"offsets": source_offsets(pipe, 3)})
        worker.wait_until("the worker returned the offsets", partial(has_response, worker, path, expected))
    assert kraal.ask("DELETE", f"/connectors/{name}").status == 204


def test_error_messages_match_java_with_any_leader(workers: list[WorkerProcess], pipe: Pipe) -> None:
    follower = workers[1]
    missing_offsets = (400, "Partitions / offsets need to be provided for an alter offsets request")
    assert alter_offsets(follower, pipe.source, []) == missing_offsets
    assert alter_offsets(follower, pipe.source, None) == missing_offsets
    assert alter_offsets(follower, "nobody", source_offsets(pipe, 1)) == (404, "Connector nobody not found")
    for method in ("GET", "DELETE"):
        response = follower.ask(method, "/connectors/nobody/offsets")
        assert (response.status, response.body["message"]) == (404, "Connector nobody not found")
    for name in (pipe.source, pipe.sink):
        assert follower.ask("PUT", f"/connectors/{name}/stop").status == 204
        follower.wait_for_states(name, ["STOPPED"])
    code = 500 if isinstance(workers[0], JavaWorker) else 400
    for partition, offset, text in SOURCE_RULES:
        assert alter_offsets(follower, pipe.source, [{"partition": partition, "offset": offset}]) == (
            code,
            text,
        )
    for partition, offset, text in SINK_RULES:
        assert alter_offsets(follower, pipe.sink, [{"partition": partition, "offset": offset}]) == (400, text)
    unknown = {"kafka_topic": "there-is-none", "kafka_partition": 0}
    assert alter_offsets(follower, pipe.sink, [{"partition": unknown, "offset": {"kafka_offset": 1}}]) == (
        500,
        f"Failed to alter consumer group offsets for connector {pipe.sink}",
    )


SOURCE_PARTITION: dict[str, Any] = {"filename": "f"}
SINK_PARTITION: dict[str, Any] = {"kafka_topic": "t", "kafka_partition": 0}
NOT_A_LONG = "The value for the 'position' key in the offset is expected to be a Long value"
NOT_PRIMITIVE = "Offsets may only contain primitive types as values, but field {} contains {}"
INVALID_PARTITION = (
    "Failed to parse the following Kafka partition value in the provided offsets: '{}'. Partition values for sink "
    "connectors need to be integers."
)
INVALID_OFFSET = (
    "Failed to parse the following Kafka offset value in the provided offsets: '{}'. Offset values for sink connectors "
    "need to be integers."
)
MISSING_KEYS = (
    "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'"
)

SOURCE_RULES: list[tuple[Any, Any, str]] = [
    ({}, {"position": 1}, "Partition objects should contain the key 'filename'"),
    (SOURCE_PARTITION, {"pos": 1}, "Offset objects should either be null or contain the key 'position'"),
    (SOURCE_PARTITION, {"position": "1"}, NOT_A_LONG),
    (SOURCE_PARTITION, {"position": 1.0}, NOT_A_LONG),
    (SOURCE_PARTITION, {"position": True}, NOT_A_LONG),
    (SOURCE_PARTITION, {"position": None}, NOT_A_LONG),
    (
        SOURCE_PARTITION,
        {"position": -1},
        "The value for the 'position' key in the offset should be a non-negative value",
    ),
    ({"filename": ["f"]}, None, NOT_PRIMITIVE.format("filename", "ARRAY")),
    (SOURCE_PARTITION, {"position": {}}, NOT_PRIMITIVE.format("position", "MAP")),
    (SOURCE_PARTITION, {"position": 2**63}, NOT_PRIMITIVE.format("position", "class java.math.BigInteger")),
]
SINK_RULES: list[tuple[Any, Any, str]] = [
    (None, {"kafka_offset": 1}, "The partition for a sink connector offset cannot be null or missing"),
    ({"kafka_topic": "t"}, None, MISSING_KEYS),
    ({"kafka_partition": 0}, None, MISSING_KEYS),
    (
        SINK_PARTITION | {"kafka_topic": None},
        None,
        "Kafka topic names must be valid strings and may not be null",
    ),
    (
        SINK_PARTITION | {"kafka_partition": None},
        None,
        "Kafka partitions must be valid numbers and may not be null",
    ),
    (SINK_PARTITION | {"kafka_partition": "x"}, None, INVALID_PARTITION.format("x")),
    (SINK_PARTITION | {"kafka_partition": 1.5}, None, INVALID_PARTITION.format("1.5")),
    (SINK_PARTITION | {"kafka_partition": True}, None, INVALID_PARTITION.format("true")),
    (SINK_PARTITION | {"kafka_partition": [1, 2]}, None, INVALID_PARTITION.format("[1, 2]")),
    (SINK_PARTITION | {"kafka_partition": 2**31}, None, INVALID_PARTITION.format(2**31)),
    (SINK_PARTITION | {"kafka_partition": "1_0"}, None, INVALID_PARTITION.format("1_0")),
    (
        SINK_PARTITION,
        {"offset": 1},
        "The offset for a sink connector should either be null or contain the key 'kafka_offset'",
    ),
    (SINK_PARTITION, {"kafka_offset": None}, INVALID_OFFSET.format("null")),
    (SINK_PARTITION, {"kafka_offset": "1e3"}, INVALID_OFFSET.format("1e3")),
    (SINK_PARTITION, {"kafka_offset": 2**63}, INVALID_OFFSET.format(2**63)),
]
