"""Offsets of files over REST: KIP-875, OffsetsApiIntegrationTest, on a real broker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer

from kraal.broker.broker import Broker
from kraal.testing.process import Answer, WorkerProcess
from tests.fakes.spark.pipe import Pipe

ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
LINE = 84


def read_offsets(pipe: Pipe, name: str) -> list[Any]:
    response = pipe.worker.get(f"/connectors/{name}/offsets")
    assert response.status == 200, response
    pairs: list[Any] = response.body["offsets"]
    return pairs


def source_at(pipe: Pipe, position: object) -> list[Any]:
    partition = {"filename": str(pipe.source_file)}
    return [{"partition": partition, "offset": None if position is None else {"position": position}}]


def sink_at(pipe: Pipe, position: object) -> list[Any]:
    partition = {"kafka_topic": pipe.topic, "kafka_partition": 0}
    return [{"partition": partition, "offset": None if position is None else {"kafka_offset": position}}]


def patch_offsets(pipe: Pipe, name: str, pairs: list[Any]) -> Answer:
    return pipe.worker.request("PATCH", f"/connectors/{name}/offsets", {"offsets": pairs})


def reset_offsets(pipe: Pipe, name: str) -> Answer:
    return pipe.worker.delete(f"/connectors/{name}/offsets")


def error_response(code: int, message: str) -> Answer:
    return Answer(code, {"error_code": code, "message": message})


def format_lines(*numbers: int) -> list[str]:
    return [f"{number:010d}" for number in numbers]


def read_output(pipe: Pipe) -> list[str]:
    return [line[:10].decode() for line in pipe.sink_lines()]


@pytest.fixture
def ten(pipe: Pipe) -> Pipe:
    """A pipe that has transferred ten lines."""
    pipe.write(10)
    pipe.worker.wait_until("ten lines were transferred", pipe.is_through_exactly)
    pipe.worker.wait_until(
        "both connectors had stored their offsets",
        lambda: (
            read_offsets(pipe, pipe.source) == source_at(pipe, 10 * LINE)
            and read_offsets(pipe, pipe.sink) == sink_at(pipe, 10)
        ),
    )
    return pipe


def stop_connector(pipe: Pipe, name: str) -> None:
    assert pipe.worker.put(f"/connectors/{name}/stop").status == 204


def resume_connector(pipe: Pipe, name: str) -> None:
    assert pipe.worker.put(f"/connectors/{name}/resume").status == 202


def test_source_and_sink_continue_at_altered_offsets(ten: Pipe) -> None:
    for name in (ten.source, ten.sink):
        stop_connector(ten, name)  # immediately afterwards, because a standalone worker waits for the tasks
        pairs = source_at(ten, 5 * LINE) if name == ten.source else sink_at(ten, "8")
        assert patch_offsets(ten, name, pairs) == Answer(200, {"message": ALTERED})
    assert read_offsets(ten, ten.source) == source_at(ten, 5 * LINE)
    assert read_offsets(ten, ten.sink) == sink_at(ten, 8)
    for name in (ten.source, ten.sink):
        resume_connector(ten, name)
    wanted = format_lines(*range(10), 8, 9, *range(5, 10))
    ten.worker.wait_until("the sink repeated the lines", lambda: read_output(ten) == wanted)
    ten.wait_until_running()


def test_reset_offsets_are_empty_and_reprocessed_after_resume(
    ten: Pipe,
) -> None:
    for name in (ten.source, ten.sink):
        stop_connector(ten, name)
        assert [reset_offsets(ten, name) for _ in range(2)] == [Answer(200, {"message": RESET})] * 2
        assert read_offsets(ten, name) == []
    resume_connector(ten, ten.sink)
    ten.worker.wait_until(
        "all lines were repeated", lambda: read_output(ten) == format_lines(*range(10), *range(10))
    )
    resume_connector(ten, ten.source)
    wanted = format_lines(*range(10), *range(10), *range(10))
    ten.worker.wait_until("all lines were repeated again", lambda: read_output(ten) == wanted)


def test_null_offset_deletes_stored_and_committed_offsets(ten: Pipe) -> None:
    for name, pairs in ((ten.source, source_at(ten, None)), (ten.sink, sink_at(ten, None))):
        stop_connector(ten, name)
        assert patch_offsets(ten, name, pairs) == Answer(200, {"message": ALTERED})
        assert read_offsets(ten, name) == []


@pytest.mark.parametrize(
    ("pair", "text"),
    [
        (({}, {"position": 1}), "Partition objects should contain the key 'filename'"),
        (
            ({"filename": "f"}, {"pos": 1}),
            "Offset objects should either be null or contain the key 'position'",
        ),
        (
            ({"filename": "f"}, {"position": "1"}),
            "The value for the 'position' key in the offset is expected to be a Long value",
        ),
        (
            ({"filename": "f"}, {"position": 1.0}),
            "The value for the 'position' key in the offset is expected to be a Long value",
        ),
        (
            ({"filename": "f"}, {"position": -1}),
            "The value for the 'position' key in the offset should be a non-negative value",
        ),
        (
            ({"filename": ["f"]}, None),
            "Offsets may only contain primitive types as values, but field filename contains ARRAY",
        ),
    ],
)
def test_source_connector_can_reject_altered_offsets(
    worker: WorkerProcess, pair: tuple[Any, Any], text: str
) -> None:
    name = "only-offsets"
    config = {"connector.class": "FileStreamSource", "file": "/nowhere", "topic": "t"}
    if worker.get(f"/connectors/{name}").status == 404:
        worker.create(name, config, initial_state="STOPPED")
    pairs = [{"partition": pair[0], "offset": pair[1]}]
    assert worker.request("PATCH", f"/connectors/{name}/offsets", {"offsets": pairs}) == error_response(
        400, text
    )
    assert worker.get(f"/connectors/{name}/offsets") == Answer(200, {"offsets": []})


def test_offsets_of_source_without_file_cannot_be_altered(worker: WorkerProcess) -> None:
    worker.create("no-file", {"connector.class": "FileStreamSource", "topic": "t"}, initial_state="STOPPED")
    assert worker.delete("/connectors/no-file/offsets") == error_response(
        400,
        "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin is used for "
        "input and offsets are not tracked.",
    )


def test_altering_sink_offsets_with_active_members_returns_500(ten: Pipe, kafka: Broker) -> None:
    stop_connector(ten, ten.sink)
    zombie = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"connect-{ten.sink}"})
    zombie.subscribe([ten.topic])

    def has_joined() -> bool:
        zombie.poll(0.1)
        return bool(zombie.assignment())

    ten.worker.wait_until("the zombie was in the group", has_joined)
    for response, what in (
        (patch_offsets(ten, ten.sink, sink_at(ten, 1)), "alter"),
        (reset_offsets(ten, ten.sink), "reset"),
    ):
        assert response == error_response(
            500,
            f"Failed to {what} consumer group offsets for connector {ten.sink} either because its tasks haven't "
            f"stopped completely yet or the connector was resumed before the request to {what} its offsets could be "
            "successfully completed. If the connector is in a stopped state, this operation can be safely retried. If "
            "it doesn't eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink "
            "tasks.",
        )
    zombie.close()
    assert patch_offsets(ten, ten.sink, sink_at(ten, 1)) == Answer(200, {"message": ALTERED})


def test_offset_requests_for_missing_and_running_connectors_fail(ten: Pipe) -> None:
    worker = ten.worker
    not_found = error_response(404, "Connector nobody not found")
    assert worker.get("/connectors/nobody/offsets") == not_found
    assert patch_offsets(ten, "nobody", sink_at(ten, 1)) == not_found
    assert reset_offsets(ten, "nobody") == not_found
    for name, pairs in ((ten.source, source_at(ten, 0)), (ten.sink, sink_at(ten, 0))):
        for response in (patch_offsets(ten, name, pairs), reset_offsets(ten, name)):
            assert response.status == 400
            assert response.body["message"].startswith("Connectors must be in the STOPPED state before")
    assert worker.delete(f"/connectors/{ten.source}").status == 204
    assert worker.get(f"/connectors/{ten.source}/offsets").status == 404
    worker.create(ten.source, ten.source_config, initial_state="STOPPED")
    assert read_offsets(ten, ten.source) == source_at(ten, 10 * LINE)
