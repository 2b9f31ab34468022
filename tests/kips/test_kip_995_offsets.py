"""Tests for KIP-995: `initial_offsets` in POST /connectors, an extension that Kafka 4.4 does not have.

The implementation of the KIP in Kafka may still change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sized
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from actors.messages.herder import CreateConnector, PutConfig
from actors.runtime.mailbox import Ask
from kraal.config.connector.files import read_connector_file
from kraal.core.errors import RetryableConflict, StoreError
from kraal.core.ids import ConnectorName, TargetState
from kraal.testing._simulation.plugins import FAKE_SINK, FakeSourceConnector
from kraal.worker.standalone import apply_file
from tests.kips.connect_cluster import ConnectCluster, Response, fake_config
from tests.kips.modes import OneWorker

NAME = "file-src-1"
SINK_CONFIG = {"connector.class": FAKE_SINK, "topics": "test-topic", "tasks.max": "2"}
OFFSETS_ALTERED = "The Connect framework-managed offsets for this connector have been altered successfully."


def make_entry(task: int, position: int | None) -> dict[str, Any]:
    """Return an entry of `initial_offsets` in the format of the fake source."""
    offset = None if position is None else {"position": position}
    return {"partition": {"task": f"{NAME}-{task}"}, "offset": offset}


def make_sink_entry(task: int, position: int) -> dict[str, Any]:
    return {
        "partition": {"kafka_topic": "fake", "kafka_partition": task},
        "offset": {"kafka_offset": position},
    }


def create_connector(connect: ConnectCluster, offsets: Any, **fields: Any) -> Response:
    """POST a connector with `initial_offsets`."""
    return connect.post(
        "/connectors", {"name": NAME, "config": fake_config(2), "initial_offsets": offsets, **fields}
    )


def get_offsets(connect: ConnectCluster) -> list[Any]:
    offsets: list[Any] = connect.get(f"/connectors/{NAME}/offsets").body["offsets"]
    return sorted(offsets, key=str)


def create_and_delete(connect: ConnectCluster) -> None:
    """Create and delete a connector; its offsets remain."""
    assert (
        create_connector(connect, [make_entry(0, 5), make_entry(1, 6)], initial_state="STOPPED").status == 201
    )
    connect.advance_until_idle()
    assert connect.request("DELETE", f"/connectors/{NAME}").status == 204
    connect.advance_until_idle()


def test_source_starts_from_initial_offsets(connect: ConnectCluster) -> None:
    response = create_connector(connect, [make_entry(0, 7), make_entry(1, 9)])
    assert (response.status, response.body["name"]) == (201, NAME)
    assert response.body["offsets_status"].startswith(OFFSETS_ALTERED)
    connect.advance_until_idle()
    assert connect.states(NAME) == ["RUNNING"] * 3
    assert get_offsets(connect) == [make_entry(0, 7), make_entry(1, 9)]


def test_sink_starts_from_initial_offsets(connect: ConnectCluster) -> None:
    body = {
        "name": NAME,
        "config": SINK_CONFIG,
        "initial_offsets": [make_sink_entry(0, 3)],
        "initial_state": "STOPPED",
    }
    assert connect.post("/connectors", body).status == 201
    connect.advance_until_idle()
    assert connect.states(NAME) == ["STOPPED"]
    assert get_offsets(connect) == [make_sink_entry(0, 3)]


@pytest.mark.parametrize("body", [{}, {"initial_offsets": None}])
def test_response_without_initial_offsets_has_no_offsets_status(
    connect: ConnectCluster, body: dict[str, None]
) -> None:
    create_and_delete(connect)
    response = connect.post("/connectors", {"name": NAME, "config": fake_config(2), **body})
    assert (response.status, "offsets_status" in response.body) == (201, False)
    connect.advance_until_idle()
    assert get_offsets(connect) == [make_entry(0, 5), make_entry(1, 6)]


def test_initial_offsets_replace_offsets_of_a_deleted_connector(connect: ConnectCluster) -> None:
    create_and_delete(connect)
    assert create_connector(connect, [make_entry(0, 7)]).status == 201
    connect.advance_until_idle()
    assert get_offsets(connect) == [make_entry(0, 7)]


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ([], "Partitions / offsets need to be provided"),
        ({}, "Field initial_offsets must be a JSON array, but is an object"),
        ([{"partition": None, "offset": {"position": 1}}], "cannot be null or missing"),
        ([{"partition": {"a": [1]}, "offset": None}], "may only contain primitive types"),
        ([{"partition": {}, "offset": {}, "lag": 1}], "Unknown field"),
    ],
)
def test_malformed_offsets_return_400_and_create_nothing(
    connect: ConnectCluster, offsets: Any, text: str
) -> None:
    response = create_connector(connect, offsets)
    assert (response.status, text in response.body["message"]) == (400, True), response
    assert connect.get("/connectors").body == []
    assert create_connector(connect, [make_entry(0, 1)]).status == 201


def test_invalid_config_is_rejected_before_offsets_change(connect: ConnectCluster) -> None:
    create_and_delete(connect)
    config = {**fake_config(2), "tasks.max": "many"}
    body = {"name": NAME, "config": config, "initial_offsets": [make_entry(0, 7)]}
    assert connect.post("/connectors", body).status == 400
    assert create_connector(connect, None).status == 201
    connect.advance_until_idle()
    assert get_offsets(connect) == [make_entry(0, 5), make_entry(1, 6)]


def test_offsets_rejected_by_the_connector_create_nothing(
    connect: ConnectCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_and_delete(connect)
    requested_offsets: list[Sized] = []

    def reject_offsets(_: object, config: object, offsets: Sized) -> bool:
        del config
        requested_offsets.append(offsets)
        raise ValueError("these are not mine")

    with monkeypatch.context() as patch:
        patch.setattr(FakeSourceConnector, "alter_offsets", reject_offsets)
        response = create_connector(connect, [make_entry(0, 7)])
    assert (response.status, response.body["message"]) == (400, "these are not mine")
    assert [len(offsets) for offsets in requested_offsets] == [1], (
        "offsets of the deleted connector are not passed to the plugin"
    )
    assert connect.config_records("connector-")[-1:] in ([], [(f"connector-{NAME}", None)])
    assert create_connector(connect, None).status == 201
    connect.advance_until_idle()
    assert get_offsets(connect) == [make_entry(0, 5), make_entry(1, 6)]


@pytest.mark.parametrize(
    "prepare", [create_and_delete, lambda _: None], ids=["with previous offsets", "without previous offsets"]
)
def test_previous_offsets_are_restored_if_the_config_write_fails(
    connect: ConnectCluster, prepare: Callable[[ConnectCluster], None]
) -> None:
    prepare(connect)

    def fail_append(operation: str) -> None:
        if operation == "append":
            raise StoreError("the brokers are unavailable")

    connect.config_log.fault = fail_append
    assert create_connector(connect, [make_entry(0, 7), make_entry(2, 8)]).status == 500
    connect.config_log.fault = lambda _: None
    connect.advance_until_idle()
    assert connect.get("/connectors").body == []
    assert create_connector(connect, None, initial_state="STOPPED").status == 201
    connect.advance_until_idle()
    previous_offsets = [make_entry(0, 5), make_entry(1, 6)] if prepare is create_and_delete else []
    assert get_offsets(connect) == previous_offsets


def test_existing_connector_keeps_its_offsets(connect: ConnectCluster) -> None:
    assert create_connector(connect, [make_entry(0, 5)]).status == 201
    connect.advance_until_idle()
    response = create_connector(connect, [make_entry(0, 7)])
    assert (response.status, response.body["message"]) == (409, f"Connector {NAME} already exists")
    assert get_offsets(connect) == [make_entry(0, 5)]


def test_new_connector_waits_for_the_tasks_of_a_deleted_connector(standalone: OneWorker) -> None:
    """The tasks of the deleted connector may still write offsets."""
    worker, name = standalone.worker, ConnectorName(NAME)
    standalone.create(NAME, tasks=2)
    standalone.feed(NAME, 0, 25)
    standalone.advance_until_idle()
    standalone.freeze("worker")  # a frozen worker actor stops no tasks
    assert standalone.request("DELETE", f"/connectors/{NAME}").status == 204
    creation = worker.assembly.herder.question(
        CreateConnector(
            name=name,
            config=fake_config(2),
            initial_state=TargetState.STOPPED,
            initial_offsets=[({"task": f"{NAME}-0"}, {"position": 7})],
        )
    )
    worker.run()
    assert not creation.done()
    standalone.freeze("worker", frozen=False)
    worker.run_until(creation.done, timeout_s=5)
    assert (creation.result() or "").startswith(OFFSETS_ALTERED)
    standalone.advance_until_idle()
    assert get_offsets(standalone) == [make_entry(0, 7)]


def test_offsets_and_config_are_written_without_interleaving(standalone: OneWorker) -> None:
    worker, name = standalone.worker, ConnectorName(NAME)
    offsets = [({"task": f"{NAME}-0"}, {"position": 7})]
    create = CreateConnector(name=name, config=fake_config(2), initial_offsets=offsets)
    standalone.freeze("offset service")
    creation = worker.assembly.herder.question(create)
    worker.run()
    messages: tuple[Ask[Any], ...] = (PutConfig(name=name, config=fake_config(1)), create)
    for message in messages:
        with pytest.raises(RetryableConflict):
            worker.ask(message)
    standalone.freeze("offset service", frozen=False)
    worker.run_until(creation.done, timeout_s=5)
    assert (creation.result() or "").startswith(OFFSETS_ALTERED)
    worker.ask(PutConfig(name=name, config=fake_config(1)))
    assert get_offsets(standalone) == [make_entry(0, 7)]


def test_connector_file_sets_initial_offsets(standalone: OneWorker, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(
        json.dumps({"name": NAME, "config": fake_config(2), "initial_offsets": [make_entry(0, 7)]}), "utf-8"
    )
    file = read_connector_file(path)
    for _ in ("creates the connector", "does not change it"):
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(apply_file, standalone.worker.assembly, file)
            while not future.done():
                standalone.worker.run()
                wait([future], timeout=0.01)
            future.result()
        standalone.advance_until_idle()
        assert standalone.states(NAME) == ["RUNNING"] * 3
        assert get_offsets(standalone) == [make_entry(0, 7)]
