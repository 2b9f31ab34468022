"""Tests for offsets of files over REST on a real broker. Mirrors KIP-875 and OffsetsApiIntegrationTest."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer

from kraal.broker.broker import Broker
from kraal.testing.process import Answer, WorkerProcess
from tests.fakes.spark.pipe import Pipe

ALTERED = "The offsets for this connector have been altered successfully"
RESET = "The offsets for this connector have been reset successfully"
LINE_BYTES = 84


def read_offsets(pipe: Pipe, name: str) -> list[Any]:
    response = pipe.worker.get(f"/connectors/{name}/offsets")
    assert response.status == 200, response
    pairs: list[Any] = response.body["offsets"]
    return pairs


def source_offsets(pipe: Pipe, position: object) -> list[Any]:
    partition = {"filename": str(pipe.source_file)}
    return [{"partition": partition, "offset": None if position is None else {"position": position}}]


def sink_offsets(pipe: Pipe, position: object) -> list[Any]:
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
def used_pipe(pipe: Pipe) -> Pipe:
    """Return a pipe that has transferred ten lines."""
    pipe.write(10)
    pipe.worker.wait_until("ten lines were transferred", pipe.is_through_exactly)
    pipe.worker.wait_until(
        "both connectors had stored their offsets",
        lambda: (
            read_offsets(pipe, pipe.source) == source_offsets(pipe, 10 * LINE_BYTES)
            and read_offsets(pipe, pipe.sink) == sink_offsets(pipe, 10)
        ),
    )
    return pipe


def stop_connector(pipe: Pipe, name: str) -> None:
    assert pipe.worker.put(f"/connectors/{name}/stop").status == 204


def resume_connector(pipe: Pipe, name: str) -> None:
    assert pipe.worker.put(f"/connectors/{name}/resume").status == 202


def test_source_and_sink_continue_at_altered_offsets(used_pipe: Pipe) -> None:
    for name in (used_pipe.source, used_pipe.sink):
        # The request to alter offsets may follow immediately, because a standalone worker waits for the tasks to stop.
        stop_connector(used_pipe, name)
        pairs = (
            source_offsets(used_pipe, 5 * LINE_BYTES)
            if name == used_pipe.source
            else sink_offsets(used_pipe, "8")
        )
        assert patch_offsets(used_pipe, name, pairs) == Answer(200, {"message": ALTERED})
    assert read_offsets(used_pipe, used_pipe.source) == source_offsets(used_pipe, 5 * LINE_BYTES)
    assert read_offsets(used_pipe, used_pipe.sink) == sink_offsets(used_pipe, 8)
    for name in (used_pipe.source, used_pipe.sink):
        resume_connector(used_pipe, name)
    expected = format_lines(*range(10), 8, 9, *range(5, 10))
    used_pipe.worker.wait_until(
        "the sink received the lines again", lambda: read_output(used_pipe) == expected
    )
    used_pipe.wait_until_running()


def test_reset_offsets_are_empty_and_reprocessed_after_resume(
    used_pipe: Pipe,
) -> None:
    for name in (used_pipe.source, used_pipe.sink):
        stop_connector(used_pipe, name)
        assert [reset_offsets(used_pipe, name) for _ in range(2)] == [Answer(200, {"message": RESET})] * 2
        assert read_offsets(used_pipe, name) == []
    resume_connector(used_pipe, used_pipe.sink)
    used_pipe.worker.wait_until(
        "all lines were delivered again",
        lambda: read_output(used_pipe) == format_lines(*range(10), *range(10)),
    )
    resume_connector(used_pipe, used_pipe.source)
    expected = format_lines(*range(10), *range(10), *range(10))
    used_pipe.worker.wait_until(
        "all lines were delivered a third time", lambda: read_output(used_pipe) == expected
    )


def test_null_offset_deletes_stored_and_committed_offsets(used_pipe: Pipe) -> None:
    for name, pairs in (
        (used_pipe.source, source_offsets(used_pipe, None)),
        (used_pipe.sink, sink_offsets(used_pipe, None)),
    ):
        stop_connector(used_pipe, name)
        assert patch_offsets(used_pipe, name, pairs) == Answer(200, {"message": ALTERED})
        assert read_offsets(used_pipe, name) == []


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


def test_offsets_of_source_without_file_cannot_be_reset(worker: WorkerProcess) -> None:
    worker.create("no-file", {"connector.class": "FileStreamSource", "topic": "t"}, initial_state="STOPPED")
    assert worker.delete("/connectors/no-file/offsets") == error_response(
        400,
        "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin is used for "
        "input and offsets are not tracked.",
    )


def test_altering_sink_offsets_with_active_members_returns_500(used_pipe: Pipe, kafka: Broker) -> None:
    stop_connector(used_pipe, used_pipe.sink)
    zombie = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"connect-{used_pipe.sink}"})
    zombie.subscribe([used_pipe.topic])

    def has_joined() -> bool:
        zombie.poll(0.1)
        return bool(zombie.assignment())

    used_pipe.worker.wait_until("the zombie was in the group", has_joined)
    for response, operation in (
        (
            patch_offsets(used_pipe, used_pipe.sink, sink_offsets(used_pipe, 1)),
            "alter",
        ),
        (reset_offsets(used_pipe, used_pipe.sink), "reset"),
    ):
        assert response == error_response(
            500,
            f"Failed to {operation} consumer group offsets for connector {used_pipe.sink} either because its tasks "
            "haven't stopped completely yet or the connector was resumed before the request to "
            f"{operation} its offsets could be successfully completed. If the connector is in a "
            "stopped state, this operation can be safely retried. If it doesn't eventually "
            "succeed, the Connect cluster may need to be restarted to get rid of the zombie sink tasks.",
        )
    zombie.close()
    assert patch_offsets(used_pipe, used_pipe.sink, sink_offsets(used_pipe, 1)) == Answer(
        200, {"message": ALTERED}
    )


def test_offset_requests_for_missing_and_running_connectors_fail(used_pipe: Pipe) -> None:
    worker = used_pipe.worker
    not_found = error_response(404, "Connector nobody not found")
    assert worker.get("/connectors/nobody/offsets") == not_found
    assert patch_offsets(used_pipe, "nobody", sink_offsets(used_pipe, 1)) == not_found
    assert reset_offsets(used_pipe, "nobody") == not_found
    for name, pairs in (
        (used_pipe.source, source_offsets(used_pipe, 0)),
        (used_pipe.sink, sink_offsets(used_pipe, 0)),
    ):
        for response in (
            patch_offsets(used_pipe, name, pairs),
            reset_offsets(used_pipe, name),
        ):
            assert response.status == 400
            assert response.body["message"].startswith("Connectors must be in the STOPPED state before")
    assert worker.delete(f"/connectors/{used_pipe.source}").status == 204
    assert worker.get(f"/connectors/{used_pipe.source}/offsets").status == 404
    worker.create(used_pipe.source, used_pipe.source_config, initial_state="STOPPED")
    assert read_offsets(used_pipe, used_pipe.source) == source_offsets(used_pipe, 10 * LINE_BYTES)
