"""Tests for `GET /connectors/{c}/history`, `…/configs` and `/events`: entries of the journal and their authors."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kraal.config.values import Password
from kraal.config.worker.basic_auth import BasicAuth
from kraal.core.errors import NotFound
from kraal.core.ids import ConnectorName, Generation, State, TargetState, TaskId, WorkerId
from kraal.journal.authors import (
    ConfigWritten,
    ConnectorDeleted,
    Effect,
    InstanceRestarted,
    LoggerLevelSet,
    OffsetsChanged,
    TargetStateSet,
)
from kraal.journal.causes import Cause, Kind
from kraal.journal.configs import ConfigWrite
from kraal.journal.events import EventKind
from kraal.plugins.registry import Registry
from kraal.protocol.status_records import Status
from tests.unit.web.api import WORKER, Api, document
from tests.unit.web.openapi.test_document import matches
from tests.unit.web.workers import Worker, set_leader
from web.settings import Settings

NAME = ConnectorName("c")
SETTINGS = Settings(advertised_url="http://worker:8083/")
DOCUMENT = document(SETTINGS)


def get_validated(api: Api, target: str, path: str) -> dict[str, Any]:
    """Return a response after validating it against the OpenAPI document."""
    code, text = api.request("GET", target)
    assert code == 200, text
    schema = DOCUMENT["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    body: dict[str, Any] = json.loads(text)
    assert matches(schema, body, DOCUMENT)
    return body


def history(api: Api, query: str = "", name: str = "c") -> dict[str, Any]:
    return get_validated(api, f"/connectors/{name}/history{query}", "/connectors/{connector}/history")


def configs(api: Api) -> dict[str, Any]:
    return get_validated(api, "/connectors/c/configs", "/connectors/{connector}/configs")


def events(api: Api, query: str = "") -> list[dict[str, Any]]:
    event_list: list[dict[str, Any]] = get_validated(api, f"/events{query}", "/events")["events"]
    return event_list


def append_state(
    api: Api, instance: ConnectorName | TaskId, state: State | None, ms: int, trace: str | None = None
) -> None:
    status = None if state is None else Status(
        state=state, worker_id=WorkerId("b:8083"), generation=Generation(3), trace=trace, written_ms=ms
    )  # fmt: skip
    api.journal.record_state(instance, status, ms)


class TestHistory:
    """History of states, newest first."""

    def test_states_have_causes_and_authors(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=1)
        append_state(api, TaskId(NAME, 0), State.FAILED, 10, "OSError: x\n  at y")
        api.journal.record_cause(
            [TaskId(NAME, 0)], Cause(Kind.RESTART, "POST from 10.0.0.7", api.clock.wall_ms())
        )
        append_state(api, TaskId(NAME, 0), State.RUNNING, 20)
        body = history(api)
        assert (body["worker_id"], body["since_ms"], body["dropped"]) == (WORKER, api.clock.wall_ms(), 0)
        assert body["states"] == [
            {"ms": 20, "task": 0, "state": "RUNNING", "worker_id": "b:8083", "generation": 3,
             "cause": "restarted", "by": "POST from 10.0.0.7", "trace": None},
            {"ms": 10, "task": 0, "state": "FAILED", "worker_id": "b:8083", "generation": 3,
             "cause": "OSError: x", "by": "", "trace": "OSError: x\n  at y"},
        ]  # fmt: skip

    def test_states_are_filtered_by_limit_and_task(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=2)
        for number in range(150):
            append_state(
                api, TaskId(NAME, number % 2), State.RUNNING if number % 4 < 2 else State.PAUSED, number
            )
        assert len(history(api)["states"]) == 100
        assert [entry["ms"] for entry in history(api, "?limit=2&task=1")["states"]] == [149, 147]
        assert history(api, "?task=7")["states"] == []

    def test_history_response_is_limited(self, api: Api) -> None:
        api.herder.put("c", {}, tasks=1)
        for number in range(2_000):
            append_state(api, TaskId(NAME, number), State.FAILED, number, f"Error: {'x' * 10_000}")
        code, text = api.request("GET", "/connectors/c/history?limit=1000")
        assert code == 200
        assert len(text.encode()) < 100_000
        assert json.loads(text)["dropped"] > 1_900

    def test_deleted_connector_has_history_and_unknown_connector_returns_404(self, api: Api) -> None:
        append_state(api, NAME, State.RUNNING, 1)
        append_state(api, NAME, None, 2)
        assert [entry["state"] for entry in history(api)["states"]] == ["REMOVED", "RUNNING"]
        assert api.request("GET", "/connectors/none/history") == (
            404, '{"error_code":404,"message":"Connector none not found"}',
        )  # fmt: skip
        api.herder.put("quiet", {})
        assert history(api, name="quiet")["states"] == []

    @pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=", "task=-1", "task=1.5"])
    def test_invalid_parameters_are_rejected(self, api: Api, query: str) -> None:
        api.herder.put("c", {})
        code, text = api.request("GET", f"/connectors/c/history?{query}")
        assert code == 400
        assert text.startswith('{"error_code":400,"message":"Invalid ')


class TestConfigs:
    """Versions of configs, without secrets."""

    def test_versions_are_listed_without_secrets(self) -> None:
        api = Api(SETTINGS, Registry.load())
        first_config = {"my.password": "secret-1", "n": "1"}
        second_config = {
            "my.password": "secret-2",
            "n": "1",
            "key.converter.basic.auth.user.info": "me:secret-3",
        }
        second_config["key.converter"] = "io.confluent.connect.avro.AvroConverter"
        api.herder.put("c", second_config)
        api.journal.record_config(NAME, None, first_config, ConfigWrite(10, "POST from 10.0.0.1"))
        api.journal.record_config(
            NAME, first_config, second_config, ConfigWrite(20, "PUT by alice from 10.0.0.2")
        )
        body = configs(api)
        assert body["current"] == {
            "ms": 20, "by": "PUT by alice from 10.0.0.2",
            "config": {"my.password": "[hidden]", "n": "1", "key.converter.basic.auth.user.info": "[hidden]",
                       "key.converter": "io.confluent.connect.avro.AvroConverter", "name": "c"},
        }  # fmt: skip
        assert body["earlier"] == [
            {"ms": 10, "by": "POST from 10.0.0.1", "config": {"my.password": "[hidden]", "n": "1"},
             "changed": ["key.converter", "key.converter.basic.auth.user.info", "my.password"]},
        ]  # fmt: skip
        assert "secret" not in json.dumps(body)

    def test_values_of_unknown_plugins_are_hidden(self) -> None:
        api = Api(SETTINGS, Registry.load())
        config = {"connector.class": "org.example.Gone", "topics": "t", "pin": "4711"}
        api.herder.put("c", config)
        api.journal.record_config(NAME, config, {**config, "pin": "0815"}, ConfigWrite(20))
        body = configs(api)
        masked_config = {"connector.class": "org.example.Gone", "topics": "t", "pin": "[hidden]"}
        assert body["current"]["config"] == {**masked_config, "name": "c"}
        assert [(version["config"], version["changed"]) for version in body["earlier"]] == [
            (masked_config, ["pin"])
        ]

    def test_config_without_history_is_current(self, api: Api) -> None:
        api.herder.put("c", {"a": "1"})
        assert configs(api) == {
            "current": {"ms": -1, "by": "", "config": {"a": "1", "name": "c"}}, "earlier": [], "dropped": 0,
        }  # fmt: skip

    def test_config_of_a_deleted_connector_is_listed_as_earlier(self, api: Api) -> None:
        api.journal.record_config(NAME, None, {"a": "1"}, ConfigWrite(10))
        api.journal.record_config(NAME, {"a": "1"}, None, ConfigWrite(20))
        body = configs(api)
        assert body["current"] is None
        assert [version["changed"] for version in body["earlier"]] == [[]]
        assert api.request("GET", "/connectors/none/configs")[0] == 404

    def test_configs_response_is_limited(self, api: Api) -> None:
        api.herder.put("c", {"a": "1"})
        for number in range(50):
            api.journal.record_config(NAME, {"a": "x" * 100_000}, {"a": str(number)}, ConfigWrite(number))
        code, text = api.request("GET", "/connectors/c/configs")
        assert code == 200
        assert len(text.encode()) < 300_000
        assert json.loads(text)["dropped"] == 48


class TestEvents:
    """Events of the worker, paged by sequence number."""

    def test_events_continue_after_a_sequence_number(self, api: Api) -> None:
        for number in range(5):
            api.journal.record_event(EventKind.WORKER, f"event {number}")
        assert [event["seq"] for event in events(api)] == [1, 2, 3, 4, 5]
        assert [event["seq"] for event in events(api, "?limit=2")] == [4, 5]
        assert [event["text"] for event in events(api, "?after=1&limit=2")] == ["event 1", "event 2"]
        assert events(api, "?after=5") == []
        boot_ids = {get_validated(api, "/events", "/events")["boot"] for _ in range(2)}
        assert boot_ids == {api.journal.boot}

    def test_events_response_is_limited(self, api: Api) -> None:
        for _ in range(5_000):
            api.journal.record_event(EventKind.WORKER, "ü" * 5_000)
        code, text = api.request("GET", "/events?limit=1000")
        assert code == 200
        assert len(text.encode()) < 1_400_000
        assert json.loads(text)["dropped"] > 3_000

    @pytest.mark.parametrize("query", ["after=-1", "after=x", "after=99999999999999999", "limit=0"])
    def test_invalid_parameters_are_rejected(self, api: Api, query: str) -> None:
        assert api.request("GET", f"/events?{query}")[0] == 400


EFFECTS: list[tuple[str, str, object, Effect]] = [
    (
        "POST",
        "/connectors",
        {"name": "n", "config": {"a": "1"}},
        ConfigWritten(ConnectorName("n"), {"a": "1"}),
    ),
    ("PUT", "/connectors/c/config", {"a": "2"}, ConfigWritten(NAME, {"a": "2"})),
    ("PATCH", "/connectors/c/config", {"a": "3", "b": None}, ConfigWritten(NAME, {"a": "3"})),
    ("DELETE", "/connectors/c", None, ConnectorDeleted(NAME)),
    ("PUT", "/connectors/c/pause", None, TargetStateSet(NAME, TargetState.PAUSED)),
    ("PUT", "/connectors/c/resume", None, TargetStateSet(NAME, TargetState.STARTED)),
    ("PUT", "/connectors/c/stop", None, TargetStateSet(NAME, TargetState.STOPPED)),
    ("POST", "/connectors/c/restart", None, InstanceRestarted(NAME)),
    ("POST", "/connectors/c/restart?includeTasks=true", None, InstanceRestarted(NAME, include_tasks=True)),
    ("POST", "/connectors/c/tasks/0/restart", None, InstanceRestarted(TaskId(NAME, 0))),
    ("PUT", "/admin/loggers/kraal.x?scope=cluster", {"level": "DEBUG"}, LoggerLevelSet("kraal.x")),
    ("DELETE", "/connectors/c/offsets", None, OffsetsChanged(NAME)),
]


class AuthorRecorder:
    """Recorder that takes the author of an effect from the journal whenever the herder receives a message."""

    def __init__(self, api: Api, effect: Effect) -> None:
        self.authors: list[str | None] = []
        original_receive = api.herder.receive

        def receive(message: object) -> object:
            self.authors.append(api.journal.authors.take(effect))
            return original_receive(message)

        api.herder.receive = receive  # type: ignore[method-assign]


@pytest.mark.parametrize(("method", "target", "body", "effect"), EFFECTS)
def test_journal_records_the_author_of_each_request(
    api: Api, method: str, target: str, body: object, effect: Effect
) -> None:
    api.herder.put("c", {}, tasks=1)
    recorder = AuthorRecorder(api, effect)
    code, text = api.request(method, target, None if body is None else json.dumps(body))
    assert code < 300, text
    assert recorder.authors[-1] == f"{method} from testclient"


def test_author_of_a_rejected_request_is_not_recorded(api: Api) -> None:
    api.herder.error = NotFound("Unknown connector c")
    assert api.request("PUT", "/connectors/c/pause")[0] == 404
    assert api.journal.authors.take(TargetStateSet(NAME, TargetState.PAUSED)) is None


def test_author_is_the_authenticated_user_regardless_of_headers() -> None:
    auth = BasicAuth({"alice": Password("wonder-land")})
    api = Api(Settings(advertised_url="http://worker:8083/", basic_auth=auth))
    api.herder.put("c", {})
    recorder = AuthorRecorder(api, TargetStateSet(NAME, TargetState.PAUSED))
    login = base64.b64encode(b"alice:wonder-land").decode()
    api.request("PUT", "/connectors/c/pause", Authorization=f"Basic {login}", X_Forwarded_For="1.2.3.4")
    assert recorder.authors[-1] == "PUT by alice from testclient"
    open_api = Api(SETTINGS)
    open_api.herder.put("c", {})
    recorder = AuthorRecorder(open_api, TargetStateSet(NAME, TargetState.PAUSED))
    open_api.request("PUT", "/connectors/c/pause", Authorization=f"Basic {login}")
    assert recorder.authors[-1] == "PUT from testclient", "the password was not verified"


def test_forwarded_request_has_an_author_on_both_workers(follower: Worker, leader: Worker) -> None:
    effect = TargetStateSet(NAME, TargetState.STOPPED)
    leader.api.herder.put("c", {})
    set_leader(follower, leader.url)
    recorder = AuthorRecorder(leader.api, effect)
    assert follower.ask("PUT", "/connectors/c/stop").status_code == 204
    assert recorder.authors[-1] == "PUT from 127.0.0.1 (forwarded)"
    assert follower.api.journal.authors.take(effect) == "PUT from 127.0.0.1", (
        "the follower reads the record later"
    )
