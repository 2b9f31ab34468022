"""Tests for KIP-558: GET topics, PUT topics/reset, the lifetime of active topics, and the two settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kraal.config.worker.distributed import parse_distributed
from kraal.config.worker.distributed_keys import DISTRIBUTED
from kraal.config.worker.keys import STANDALONE
from kraal.config.worker.standalone import parse_standalone
from kraal.core.errors import ConfigInvalid
from kraal.testing._simulation.worker import DEFAULTS
from tests.fakes.workers.worker_config import GROUP
from tests.kips.connect_cluster import ConnectCluster

NAME = "some-source"
TOPICS_PATH = f"/connectors/{NAME}/topics"


def use_topics(connect: ConnectCluster, *topics: str, name: str = NAME, task: int = 0) -> None:
    """Make a task use topics, in order."""
    for topic in topics:
        connect.set_topic(topic)
        connect.feed(name, task, 5)
        connect.advance_until_idle()


def list_tombstones(connect: ConnectCluster, after: int) -> set[str]:
    """Return the keys of the tombstones among the topic records from offset `after`."""
    return {key for key, value in connect.status_records("status-topic-", after=after) if value is None}


# -- REST --------------------------------------------------------------------------------------------------


def test_get_returns_all_topics_since_creation(connect: ConnectCluster) -> None:
    """The names are those of the example in the KIP.

    > A GET /connectors/{name}/topics endpoint.

    > This endpoint will return the set of topic names that the connector has been using since its creation

    > There's no defined order in which the topics are returned

    > $ curl -s 'http://localhost:8083/connectors/some-source/topics' | jq

    > "some-source": { "topics": [ "foo", "bar", "baz",

    > such sets are monotonically increasing in size over time.

    > This feature enables a user or application to find out the topic names that are used by a connector.
    """
    connect.create(NAME)
    use_topics(connect, "foo", "bar", "baz")
    response = connect.get(TOPICS_PATH)
    assert response.status == 200
    assert set(response.body) == {"some-source"}
    assert set(response.body["some-source"]) == {"topics"}
    assert set(response.body["some-source"]["topics"]) == {"foo", "bar", "baz"}
    use_topics(connect, "foo")
    assert set(connect.topics(NAME)) == {"foo", "bar", "baz"}


def test_reset_writes_a_tombstone_for_each_topic(connect: ConnectCluster) -> None:
    """The worker that handles the request has no active topics afterwards.

    > an explicit Connect REST API request to reset a connector's set of active topics.

    > When a Connect worker receives this request, it sends a tombstone message for each topic in a connector's set
    > of active topics.

    > A PUT /connectors/{name}/topics/reset endpoint.

    > This endpoint will reset the set of topic names

    > When a PUT request is issued and resetting connector active topics is allowed, the request returns an HTTP
    > Status 200 with no payload.

    > $ curl -X PUT -s 'http://localhost:8083/connectors/some-source/topics/reset' | jq

    > or since the last time its set of active topics was reset.
    """
    connect.create(NAME)
    use_topics(connect, "foo", "bar")
    end = connect.status_log.end()
    response = connect.put(f"{TOPICS_PATH}/reset")
    assert (response.status, response.text) == (200, "")
    assert connect.get(TOPICS_PATH, via=response.via).body == {NAME: {"topics": []}}, (
        "the reset must be visible immediately on the same worker"
    )
    assert list_tombstones(connect, end) == {f"status-topic-{t}:connector-{NAME}" for t in ("foo", "bar")}
    connect.advance_until_idle()
    assert connect.topics(NAME) == []
    use_topics(connect, "baz")
    assert connect.topics(NAME) == ["baz"]


def test_topics_in_use_become_active_again_after_a_reset(connect: ConnectCluster) -> None:
    """The connector continues running.

    > Resetting the set of active topics of a connector while this connector is running is fine, as long as the
    > intention is to reset any topics that are no longer used by the connector and retain the ones that are active.

    > Topic reset is a composable operation with respect to a connector's normal execution.

    > Soon after the reset, the worker tasks will populate the status.storage.topic with new topic status messages
    > for the topics that the connector is currently using.
    """
    connect.create(NAME)
    use_topics(connect, "old", "new")
    starts = connect.starts(NAME)
    assert connect.put(f"{TOPICS_PATH}/reset").status == 200
    connect.advance_until_idle()
    use_topics(connect, "new")
    assert connect.topics(NAME) == ["new"]
    assert connect.starts(NAME) == starts
    assert set(connect.states(NAME)) == {"RUNNING"}


def test_reset_succeeds_without_topics_and_after_deletion(connect: ConnectCluster) -> None:
    """A reset without topics, or of a deleted connector, is not an error.

    > Success of resetting the history of a topic usage is independent of whether a connector is still running (this
    > request can be reapplied after the deletion of the connector).

    > Partial reset can be followed by another attempt to reset tracking of topics for a connector.
    """
    connect.create(NAME)
    use_topics(connect, "foo")
    assert connect.put(f"/connectors/{NAME}/pause").status == 202
    connect.advance_until_idle()
    assert [connect.put(f"{TOPICS_PATH}/reset").status for _ in range(2)] == [200, 200]
    assert connect.request("DELETE", f"/connectors/{NAME}").status == 204
    connect.advance_until_idle()
    assert connect.put(f"{TOPICS_PATH}/reset").status == 200
    assert connect.topics(NAME) == []


# -- restarting, reconfiguring, deleting -------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "?includeTasks=true"])
def test_restart_keeps_active_topics(connect: ConnectCluster, query: str) -> None:
    """Both forms of the restart request are tested.

    > Just restarting a connector (without altering the configuration) has no effect on the recorded set of active
    > topics for that connector.
    """
    connect.create(NAME)
    use_topics(connect, "foo")
    end = connect.status_log.end()
    assert connect.post(f"/connectors/{NAME}/restart{query}").status in (202, 204)
    connect.advance_until_idle()
    assert connect.topics(NAME) == ["foo"]
    assert connect.status_records("status-topic-", after=end) == []


def test_reconfiguration_keeps_active_topics_until_a_reset(connect: ConnectCluster) -> None:
    """A sink is reconfigured for other topics.

    > Reconfiguring a connector also has no effect on the recorded set of active topics.

    > For sink connectors, that means that a topic that was included in the previous configuration of the connector
    > but is not included in the current configuration, will still show up in the set of active topics.

    > An explicit reset request will have to be issued (immediately after the connector is reconfigured) in order to
    > remove these old topics from the connectors active set.
    """
    connect.create(NAME, is_sink=True)
    use_topics(connect, "fake")
    config = {**connect.get(f"/connectors/{NAME}/config").body, "topics": "other"}
    assert connect.put(f"/connectors/{NAME}/config", config).status == 200
    connect.advance_until_idle()
    use_topics(connect, "other")
    assert set(connect.topics(NAME)) == {"fake", "other"}
    connect.put(f"{TOPICS_PATH}/reset")
    connect.advance_until_idle()
    use_topics(connect, "other")
    assert connect.topics(NAME) == ["other"]


@pytest.mark.parametrize("allowed", ["true", "false"])
def test_deletion_clears_active_topics(make_connect: Callable[..., ConnectCluster], allowed: str) -> None:
    """A new connector with the same name starts without topics.

    > Deleting a connector will reset this connector's set of active topics even when resetting topic tracking for
    > connectors has been disabled.
    """
    connect = make_connect({"topic.tracking.allow.reset": allowed})
    connect.create(NAME)
    use_topics(connect, "foo", "bar")
    end = connect.status_log.end()
    assert connect.request("DELETE", f"/connectors/{NAME}").status == 204
    connect.advance_until_idle()
    assert list_tombstones(connect, end) == {f"status-topic-{t}:connector-{NAME}" for t in ("foo", "bar")}
    connect.create(NAME)
    assert connect.topics(NAME) == []


# -- the two settings --------------------------------------------------------------------------------------


def test_reset_can_be_disabled(make_connect: Callable[..., ConnectCluster]) -> None:
    """Topics are still tracked.

    > When a PUT request is issued but resetting the set of active topics for connectors is disabled, the request
    > return HTTP Status of 403 with the following error message:

    > $ curl -X PUT -s 'http://localhost:8083/connectors/some-source/topics/reset' | jq { "error_code": 403,
    > "message": "Topic tracking reset is disabled"

    > b) to enable topic tracking but without allowing calls to the Connect REST API to reset the history of active
    > topics for a connector.

    > requests to reset the set of active topics for specific connectors.
    """
    connect = make_connect({"topic.tracking.allow.reset": "false"})
    connect.create(NAME)
    use_topics(connect, "foo")
    response = connect.put(f"{TOPICS_PATH}/reset")
    assert response.status == 403
    assert response.body == {"error_code": 403, "message": "Topic tracking reset is disabled"}
    assert connect.topics(NAME) == ["foo"]


def test_tracking_can_be_disabled(make_connect: Callable[..., ConnectCluster]) -> None:
    """No topics are recorded.

    > the following two configurations give the administrator of the Connect cluster the ability a) to disable this
    > feature altogether

    > the Connect worker will track and persist which topics are actively used per connector.
    """
    connect = make_connect({"topic.tracking.enable": "false"})
    connect.create(NAME)
    use_topics(connect, "foo")
    assert connect.status_records("status-topic-") == []
    for method, path in (("GET", TOPICS_PATH), ("PUT", f"{TOPICS_PATH}/reset")):
        assert connect.request(method, path).status == 403


def parse_properties(mode: str, **properties: str) -> Any:
    """Parse a worker's properties."""
    raw = {**DEFAULTS, **properties}
    if mode == "standalone":
        return parse_standalone(raw)
    del raw["offset.storage.file.filename"]
    return parse_distributed({**raw, **GROUP})


@pytest.mark.parametrize(
    ("key", "field"),
    [("topic.tracking.enable", "topic_tracking"), ("topic.tracking.allow.reset", "topic_tracking_reset")],
)
def test_settings_are_booleans_with_default_true(mode: str, key: str, field: str) -> None:
    """The KIP lists both settings in a table.

    > Topic tracking will be enabled by default, as will the ability to reset the set of active topics for a
    > connector.

    > topic.tracking.enable booleantruetrue, falseWhether the Connect worker will track and persist

    > topic.tracking.allow.reset booleantruetrue, falseWhether to allow requests to reset
    """
    [setting] = [
        config_key
        for config_key in {"standalone": STANDALONE, "distributed": DISTRIBUTED}[mode]
        if config_key.name == key
    ]
    assert (setting.type, setting.default) == ("BOOLEAN", True)
    assert getattr(parse_properties(mode), field) is True
    for text, value in (("true", True), ("false", False)):
        assert getattr(parse_properties(mode, **{key: text}), field) is value
    with pytest.raises(ConfigInvalid, match=key):
        parse_properties(mode, **{key: "maybe"})
