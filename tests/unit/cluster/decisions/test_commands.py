"""Tests for the records that REST commands write, and for rejections, which have Connect's messages."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from kraal.cluster.decisions import commands
from kraal.cluster.state.cluster_state import ClusterState, ConnectorEntry
from kraal.cluster.state.statuses import StatusState
from kraal.core.errors import AlreadyExists, BadRequest, KraalError, NotFound
from kraal.core.ids import ConnectorName, TargetState, TaskId, TopicName
from kraal.core.records import Entry
from tests.golden_files import current

RESPONSES = current("records", "distributed-rest.txt").read_text()
BAD, MISSING = ConnectorName("bad"), ConnectorName("nope")
STATE = ClusterState(
    connectors={
        BAD: ConnectorEntry(name=BAD, config={"name": "bad", "a": "1", "b": "2"}, tasks=({},), task_count=1)
    }
)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        pytest.param(
            lambda: commands.create(STATE, BAD, {}), AlreadyExists, id="create an existing connector"
        ),
        pytest.param(
            lambda: commands.create(STATE, ConnectorName("bad2"), {"name": "x"}),
            BadRequest,
            id="create with another name",
        ),
        pytest.param(lambda: commands.put(BAD, {"name": "x"}), BadRequest, id="put with another name"),
        pytest.param(lambda: commands.apply_patch(STATE, MISSING, {"a": "b"}), NotFound, id="patch"),
        pytest.param(lambda: commands.delete(STATE, MISSING), NotFound, id="delete"),
        pytest.param(lambda: commands.set_target(STATE, MISSING, TargetState.PAUSED), NotFound, id="pause"),
        pytest.param(lambda: commands.set_target(STATE, MISSING, TargetState.STOPPED), NotFound, id="stop"),
        pytest.param(lambda: commands.check_restart(STATE, MISSING), NotFound, id="restart"),
        pytest.param(
            lambda: commands.check_restart_task(STATE, TaskId(MISSING, 0)), NotFound, id="restart a task"
        ),
        pytest.param(lambda: commands.check_restart_task(STATE, TaskId(BAD, 7)), NotFound, id="unknown task"),
    ],
)
def test_rejections_have_connects_messages(command: Callable[[], object], error: type[KraalError]) -> None:
    with pytest.raises(error) as error_info:
        command()
    body = json.dumps({"error_code": error.status, "message": str(error_info.value)}, separators=(",", ":"))
    assert body in RESPONSES.replace("\\'", "'")


def test_create_writes_the_initial_state_first_and_the_name_last() -> None:
    """KIP-980 defines the order of the records."""
    entries = commands.create(STATE, MISSING, {"k": "v"}, TargetState.STOPPED)
    assert entries == [
        Entry("target-state-nope", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
        Entry("connector-nope", b'{"properties":{"k":"v","name":"nope"}}'),
    ]


def test_create_without_an_initial_state_writes_no_target_state() -> None:
    assert [e.key for e in commands.create(STATE, MISSING, {"name": "nope"})] == ["connector-nope"]


def test_null_name_is_replaced_by_the_connector_name() -> None:
    assert commands.add_name(BAD, {"name": None, "a": "1"}) == {"a": "1", "name": "bad"}


def test_identical_config_is_written_again() -> None:
    assert commands.put(BAD, STATE.connectors[BAD].config) == [
        Entry("connector-bad", b'{"properties":{"name":"bad","a":"1","b":"2"}}')
    ]


def test_patch_overwrites_adds_and_removes_keys() -> None:
    assert commands.apply_patch(STATE, BAD, {"a": None, "b": "3", "c": "4", "gone": None}) == {
        "name": "bad",
        "b": "3",
        "c": "4",
    }


def test_patch_cannot_change_or_remove_the_name() -> None:
    with pytest.raises(BadRequest, match=r"Connector name configuration \(zzz\) doesn't match"):
        commands.apply_patch(STATE, BAD, {"name": "zzz"})
    assert commands.apply_patch(STATE, BAD, {"name": None})["name"] == "bad"


def test_too_large_records_are_rejected() -> None:
    large_config = {f"k{number}": "ü" * 1_000 for number in range(400)}
    [entry] = commands.put(ConnectorName("x"), large_config)
    assert entry.value is not None
    assert len(entry.value) < commands.MAX_RECORD_BYTES
    too_large_config = {**large_config, **{f"l{number}": "x" * 1_000 for number in range(200)}}
    text = r"too large: its record has 10\d{5} bytes; the maximum is 990000"
    with pytest.raises(BadRequest, match=text):
        commands.put(ConnectorName("x"), too_large_config)
    with pytest.raises(BadRequest, match=text):
        commands.create(ClusterState(), ConnectorName("x"), too_large_config)
    with pytest.raises(BadRequest, match="too large"):
        commands.put(ConnectorName("n" * 500_000), {})


def test_delete_writes_two_tombstones_in_connects_order() -> None:
    assert commands.delete(STATE, BAD) == [Entry("connector-bad", None), Entry("target-state-bad", None)]


def test_stop_removes_the_tasks_first() -> None:
    assert commands.set_target(STATE, BAD, TargetState.STOPPED) == [
        Entry("commit-bad", b'{"tasks":0}'),
        Entry("target-state-bad", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
    ]


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STARTED])
def test_pause_and_resume_write_only_the_target_state(target: TargetState) -> None:
    value = f'{{"state":"{target}","state.v2":"{target}"}}'.encode()
    assert commands.set_target(STATE, BAD, target) == [Entry("target-state-bad", value)]


def test_topics_of_a_deleted_connector_can_be_reset() -> None:
    """KIP-558: "Success of resetting ... is independent of whether a connector is still running"."""
    status = StatusState(topics={MISSING: frozenset({TopicName("t")})})
    assert commands.reset_topics(status, MISSING) == [Entry("status-topic-t:connector-nope", None)]
    assert commands.reset_topics(status, BAD) == []


def test_existing_instances_may_be_restarted() -> None:
    commands.check_restart(STATE, BAD)
    commands.check_restart_task(STATE, TaskId(BAD, 0))
