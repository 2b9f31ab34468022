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


def offsets(pipe: Pipe, name: str) -> list[Any]:
    answer = pipe.worker.get(f"/connectors/{name}/offsets")
    assert answer.status == 200, answer
    found: list[Any] = answer.body["offsets"]
    return found


def source_at(pipe: Pipe, position: object) -> list[Any]:
    partition = {"filename": str(pipe.source_file)}
    return [{"partition": partition, "offset": None if position is None else {"position": position}}]


def sink_at(pipe: Pipe, position: object) -> list[Any]:
    partition = {"kafka_topic": pipe.topic, "kafka_partition": 0}
    return [{"partition": partition, "offset": None if position is None else {"kafka_offset": position}}]


def patch(pipe: Pipe, name: str, pairs: list[Any]) -> Answer:
    return pipe.worker.request("PATCH", f"/connectors/{name}/offsets", {"offsets": pairs})


def reset(pipe: Pipe, name: str) -> Answer:
    return pipe.worker.delete(f"/connectors/{name}/offsets")


def error(code: int, message: str) -> Answer:
    return Answer(code, {"error_code": code, "message": message})


def lines(*numbers: int) -> list[str]:
    return [f"{number:010d}" for number in numbers]


def came_out(pipe: Pipe) -> list[str]:
    return [line[:10].decode() for line in pipe.sink_lines()]


@pytest.fixture
def ten(pipe: Pipe) -> Pipe:
    """A pipe through which ten lines have gone."""
    pipe.write(10)
    pipe.worker.wait_until("ten lines were through", pipe.is_through_exactly)
    pipe.worker.wait_until(
        "both had stored that",
        lambda: (
            offsets(pipe, pipe.source) == source_at(pipe, 10 * LINE)
            and offsets(pipe, pipe.sink) == sink_at(pipe, 10)
        ),
    )
    return pipe


def stop(pipe: Pipe, name: str) -> None:
    assert pipe.worker.put(f"/connectors/{name}/stop").status == 204


def resume(pipe: Pipe, name: str) -> None:
    assert pipe.worker.put(f"/connectors/{name}/resume").status == 202


def test_source_and_sink_continue_at_altered_offsets(ten: Pipe) -> None:
    for name in (ten.source, ten.sink):
        stop(ten, name)  # at once after it: standalone waits for the tasks
        pairs = source_at(ten, 5 * LINE) if name == ten.source else sink_at(ten, "8")
        assert patch(ten, name, pairs) == Answer(200, {"message": ALTERED})
    assert offsets(ten, ten.source) == source_at(ten, 5 * LINE)
    assert offsets(ten, ten.sink) == sink_at(ten, 8)
    for name in (ten.source, ten.sink):
        resume(ten, name)
    wanted = lines(*range(10), 8, 9, *range(5, 10))
    ten.worker.wait_until("it came again from there", lambda: came_out(ten) == wanted)
    ten.wait_until_running()


def test_stopped_offsets_delete_twice_200_both_times_get_empty_and_resume_reprocesses_from_start(
    ten: Pipe,
) -> None:
    for name in (ten.source, ten.sink):
        stop(ten, name)
        assert [reset(ten, name) for _ in range(2)] == [Answer(200, {"message": RESET})] * 2
        assert offsets(ten, name) == []
    resume(ten, ten.sink)
    ten.worker.wait_until("all came again", lambda: came_out(ten) == lines(*range(10), *range(10)))
    resume(ten, ten.source)
    wanted = lines(*range(10), *range(10), *range(10))
    ten.worker.wait_until("and once more", lambda: came_out(ten) == wanted)


def test_offset_null_writes_a_tombstone_and_deletes_a_partitions_committed_offset(ten: Pipe) -> None:
    for name, pairs in ((ten.source, source_at(ten, None)), (ten.sink, sink_at(ten, None))):
        stop(ten, name)
        assert patch(ten, name, pairs) == Answer(200, {"message": ALTERED})
        assert offsets(ten, name) == []


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
def test_a_source_connector_may_validate_in_alter_offsets(
    worker: WorkerProcess, pair: tuple[Any, Any], text: str
) -> None:
    name = "only-offsets"
    config = {"connector.class": "FileStreamSource", "file": "/nowhere", "topic": "t"}
    if worker.get(f"/connectors/{name}").status == 404:
        worker.create(name, config, initial_state="STOPPED")
    pairs = [{"partition": pair[0], "offset": pair[1]}]
    assert worker.request("PATCH", f"/connectors/{name}/offsets", {"offsets": pairs}) == error(400, text)
    assert worker.get(f"/connectors/{name}/offsets") == Answer(200, {"offsets": []})


def test_without_a_file_offsets_cannot_be_modified(worker: WorkerProcess) -> None:
    worker.create("no-file", {"connector.class": "FileStreamSource", "topic": "t"}, initial_state="STOPPED")
    assert worker.delete("/connectors/no-file/offsets") == error(
        400,
        "Offsets cannot be modified if the 'file' configuration is unspecified. This is because stdin is used for "
        "input and offsets are not tracked.",
    )


def test_members_still_present_500_zombie_sink_tasks(ten: Pipe, kafka: Broker) -> None:
    stop(ten, ten.sink)
    zombie = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"connect-{ten.sink}"})
    zombie.subscribe([ten.topic])

    def joined() -> bool:
        zombie.poll(0.1)
        return bool(zombie.assignment())

    ten.worker.wait_until("the zombie was in the group", joined)
    for answer, what in ((patch(ten, ten.sink, sink_at(ten, 1)), "alter"), (reset(ten, ten.sink), "reset")):
        assert answer == error(
            500,
            f"Failed to {what} consumer group offsets for connector {ten.sink} either because its tasks haven't "
            f"stopped completely yet or the connector was resumed before the request to {what} its offsets could be "
            "successfully completed. If the connector is in a stopped state, this operation can be safely retried. If "
            "it doesn't eventually succeed, the Connect cluster may need to be restarted to get rid of the zombie sink "
            "tasks.",
        )
    zombie.close()
    assert patch(ten, ten.sink, sink_at(ten, 1)) == Answer(200, {"message": ALTERED})


def test_404_400_and_offsets_outlive_the_connector(ten: Pipe) -> None:
    worker = ten.worker
    not_found = error(404, "Connector nobody not found")
    assert worker.get("/connectors/nobody/offsets") == not_found
    assert patch(ten, "nobody", sink_at(ten, 1)) == not_found
    assert reset(ten, "nobody") == not_found
    for name, pairs in ((ten.source, source_at(ten, 0)), (ten.sink, sink_at(ten, 0))):
        for answer in (patch(ten, name, pairs), reset(ten, name)):
            assert answer.status == 400
            assert answer.body["message"].startswith("Connectors must be in the STOPPED state before")
    assert worker.delete(f"/connectors/{ten.source}").status == 204
    assert worker.get(f"/connectors/{ten.source}/offsets").status == 404
    worker.create(ten.source, ten.source_config, initial_state="STOPPED")
    assert offsets(ten, ten.source) == source_at(ten, 10 * LINE)
