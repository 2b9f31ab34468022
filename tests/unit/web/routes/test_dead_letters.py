"""Tests for `/connectors/{c}/dead-letters`: listing, replay and errors, with an in-memory Kafka."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from kraal.core.secrets import secrets
from kraal.dead_letters.api import KafkaUnavailable
from kraal.dead_letters.records import DeadLetter, Target
from kraal.dead_letters.selection import NoDeadLetters
from kraal.plugins.registry import Registry
from tests.fakes.kafka.dead_letters import MemoryKafka, letter
from tests.fakes.web_client import WebClient
from tests.unit.web.api import Api
from web.app import create_apps
from web.routes import dead_letters
from web.settings import Settings

PATH = "/connectors/orders-sink/dead-letters"
GROUP = "kraal-dlq-replay/dead/orders-sink"
CONFIG = {"topics": "orders", "errors.deadletterqueue.topic.name": "dead"}


@pytest.fixture
def api_with_dead_letters(api: Api) -> Api:
    """Return an API with a sink that has three dead letters, interleaved with one of another connector."""
    api.herder.put("orders-sink", CONFIG)
    api.herder.publish(types={"orders-sink": "sink"})
    api.kafka.letters["dead"] = [letter(0), letter(1, connector="other"), letter(2), letter(3)]
    return api


INVALID_START_ERROR = 'Field from must contain partitions and their offsets, such as {"0": 17}'


def ask(api: Api, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    status, text = api.request(method, path, None if body is None else json.dumps(body))
    return status, json.loads(text)


def replay(api: Api, **body: Any) -> tuple[int, Any]:
    return ask(api, "POST", f"{PATH}/replay", body)


def test_latest_letters_are_listed_with_total_counts(api_with_dead_letters: Api) -> None:
    status, body = ask(api_with_dead_letters, "GET", f"{PATH}?limit=2")
    assert (status, [shown_letter["offset"] for shown_letter in body["shown"]]) == (200, [3, 2])
    assert {key: value for key, value in body.items() if key != "shown"} == {
        "topic": "dead", "letters": 4, "left_to_replay": 4, "searched": 2
    }  # fmt: skip
    assert body["shown"][0] == {
        "topic": "dead", "partition": 0, "offset": 3, "timestamp": 1700000000003, "key": "k3", "value": "bad 3",
        "headers": [{"key": "own", "value": "\x01"}],
        "error": {
            "topic": "orders", "partition": 1, "offset": 103, "connector": "orders-sink", "task": 0,
            "stage": "VALUE_CONVERTER", "class": "JsonConverter", "exception": "DataException",
            "message": "no\nJSON", "stacktrace": "DataException\n\tat x",
        },
        "truncated": {},
    }  # fmt: skip
    assert [
        shown_letter["offset"] for shown_letter in ask(api_with_dead_letters, "GET", PATH)[1]["shown"]
    ] == [3, 2, 0], "letters of other connectors are not shown"
    assert api_with_dead_letters.kafka.settings == {**CONFIG, "name": "orders-sink"}


def test_missing_topic_has_no_letters(api: Api) -> None:
    api.herder.put("new", {**CONFIG, "errors.deadletterqueue.topic.name": "later"})
    expected = {"topic": "later", "letters": 0, "left_to_replay": 0, "searched": 0, "shown": []}
    assert ask(api, "GET", "/connectors/new/dead-letters") == (200, expected)
    assert ask(api, "POST", "/connectors/new/dead-letters/replay", {}) == (
        200, {"topic": "later", "dry_run": False, "written": {}, "targets": [], "left_to_replay": 0}
    )  # fmt: skip


def test_large_letters_are_truncated_and_the_response_is_limited(api_with_dead_letters: Api) -> None:
    large_letter = replace(letter(0), value=b"x" * 1_000_000, key=b"\x00" * 5_000)
    api_with_dead_letters.kafka.letters["dead"] = [
        replace(large_letter, offset=number) for number in range(100)
    ]
    response = api_with_dead_letters.client.get(f"{PATH}?limit=100")
    assert len(response.content) < 1.1 * 1024 * 1024
    shown_letters = response.json()["shown"]
    assert len(shown_letters) < 100
    assert shown_letters[0]["offset"] == 99
    assert (len(shown_letters[0]["value"]), shown_letters[0]["truncated"]) == (
        4_096,
        {"key": 5_000, "value": 1_000_000},
    )


def test_exceeding_the_read_limits_is_an_error(
    api_with_dead_letters: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "_MAX_READ_BYTES", 10)
    status, error = ask(api_with_dead_letters, "GET", PATH)
    assert status == 503
    assert error["message"].endswith("or 10 bytes; set a smaller limit.")
    assert ask(api_with_dead_letters, "GET", f"{PATH}?limit=1")[0] == 200, (
        "a single letter is within the limit"
    )


def test_secrets_in_errors_are_hidden(api_with_dead_letters: Api) -> None:
    secrets.add("hunter2-hunter2")
    api_with_dead_letters.kafka.letters["dead"] = [letter(0, {"exception.message": "at hunter2-hunter2"})]
    (shown_letter,) = ask(api_with_dead_letters, "GET", PATH)[1]["shown"]
    assert shown_letter["error"]["message"] == "at [hidden]"


def test_replay_resumes_after_the_previous_replay(api_with_dead_letters: Api) -> None:
    first = {"partition": 0, "offset": 0, "to_topic": "orders", "to_partition": 1}
    assert replay(api_with_dead_letters, limit=1) == (
        200, {"topic": "dead", "dry_run": False, "written": {"orders": 1}, "targets": [first], "left_to_replay": 3}
    )  # fmt: skip
    status, body = replay(api_with_dead_letters)
    assert (status, body["written"], body["left_to_replay"]) == (200, {"orders": 2}, 0)
    assert replay(api_with_dead_letters)[1]["written"] == {}
    assert [dead_letter.offset for dead_letter, _ in api_with_dead_letters.kafka.written] == [0, 2, 3]
    assert api_with_dead_letters.kafka.groups == {GROUP: {0: 4}}, (
        "replays share the group of `kraal dlq replay`"
    )
    assert ask(api_with_dead_letters, "GET", PATH)[1]["left_to_replay"] == 0


def test_dry_run_reports_the_replay(api_with_dead_letters: Api) -> None:
    status, body = replay(api_with_dead_letters, dry_run=True, limit=2)
    assert (status, body["dry_run"], body["written"], body["left_to_replay"]) == (
        200,
        True,
        {"orders": 2},
        4,
    )
    assert [target["offset"] for target in body["targets"]] == [0, 2]
    assert (api_with_dead_letters.kafka.written, api_with_dead_letters.kafka.groups) == ([], {})


def test_repeated_replay_request_writes_letters_once(api_with_dead_letters: Api) -> None:
    start = replay(api_with_dead_letters, dry_run=True, limit=2)[1]["from"]
    assert start == {"0": 0}
    assert replay(api_with_dead_letters, limit=2, **{"from": start})[1]["written"] == {"orders": 2}
    status, error = replay(api_with_dead_letters, limit=2, **{"from": start})
    assert status == 409
    assert error["message"].startswith(
        "The dead letters of connector orders-sink have changed since they were listed"
    )
    assert [dead_letter.offset for dead_letter, _ in api_with_dead_letters.kafka.written] == [0, 2], (
        "later letters are not replayed"
    )
    assert replay(api_with_dead_letters, dry_run=True)[1]["from"] == {"0": 3}
    assert replay(api_with_dead_letters)[1]["written"] == {"orders": 1}
    assert replay(api_with_dead_letters, dry_run=True)[1]["from"] == {}
    assert replay(api_with_dead_letters, **{"from": {"0": 3}})[0] == 409, (
        "no letters are left in this partition"
    )


def test_number_of_listed_targets_is_limited(api_with_dead_letters: Api) -> None:
    api_with_dead_letters.kafka.letters["dead"] = [letter(number) for number in range(150)]
    response_body = replay(api_with_dead_letters)[1]
    assert (response_body["written"], len(response_body["targets"])) == ({"orders": 150}, 100)


def test_unreplayable_letters_are_a_conflict(api_with_dead_letters: Api) -> None:
    api_with_dead_letters.kafka.letters["dead"] = [letter(0, connector=None)]
    status, error = replay(api_with_dead_letters)
    assert (status, error["message"]) == (
        409,
        (
            "The original topic of dead-0@0 is unknown because it has no header __connect.errors.topic"
            " (errors.deadletterqueue.context.headers.enable was false); specify --to TOPIC to `kraal dlq replay`"
        ),
    )
    api_with_dead_letters.kafka.letters["dead"] = [letter(0, {"topic": "gone"})]
    error = replay(api_with_dead_letters, dry_run=True)[1]
    assert error["message"] == "The original topic gone of dead-0@0 does not exist"


@pytest.mark.parametrize("topic", ["connect-configs", "__consumer_offsets", "secrets"])
def test_replay_into_a_foreign_topic_is_a_conflict(api_with_dead_letters: Api, topic: str) -> None:
    api_with_dead_letters.kafka.internal = frozenset({"connect-configs"})
    api_with_dead_letters.kafka.partitions[topic] = 1
    api_with_dead_letters.kafka.letters["dead"] = [letter(0), letter(1, {"topic": topic})]
    for dry_run in (True, False):
        status, error = replay(api_with_dead_letters, dry_run=dry_run)
        assert (status, f"The original topic {topic} of dead-0@1 is " in error["message"]) == (409, True)
    assert api_with_dead_letters.kafka.written == []


def test_connector_without_dead_letter_topic_is_not_found(api: Api) -> None:
    api.herder.put("plain", {})
    api.herder.put("hidden", {"errors.deadletterqueue.topic.name": "${env:TOPIC}"})
    requests: list[tuple[str, str, Any]] = [
        ("GET", "dead-letters", None),
        ("POST", "dead-letters/replay", {}),
    ]
    for method, path, body in requests:
        assert ask(api, method, f"/connectors/nobody/{path}", body) == (
            404, {"error_code": 404, "message": "Connector nobody not found"}
        )  # fmt: skip
        assert ask(api, method, f"/connectors/plain/{path}", body)[1]["message"] == (
            "Connector plain has no dead letter queue topic; its config does not set errors.deadletterqueue.topic.name."
        )
        assert (
            "is a variable, ${env:TOPIC};"
            in ask(api, method, f"/connectors/hidden/{path}", body)[1]["message"]
        )


class OtherCluster(MemoryKafka):
    """Kafka of a connector that uses a different cluster than the worker."""

    @override
    def __call__(self, settings: Any) -> Any:
        raise NoDeadLetters("The connector reads elsewhere.")


class UnavailableKafka(MemoryKafka):
    """Kafka cluster that does not respond."""

    @override
    def spans(self, topic: str) -> Any:
        raise KafkaUnavailable("Kafka at k:1 failed to list offsets of topic dead: timed out")


def with_kafka(api: Api, kafka: MemoryKafka | None) -> Api:
    apps = create_apps(
        api.address, api.published, Registry.of({}), api.validate, Settings(advertised_url="http://worker:8083/"),
        dead_letters=kafka,
    )  # fmt: skip
    api.client = WebClient(apps.main)
    return api


def test_other_cluster_returns_404_and_unavailable_kafka_returns_503(api_with_dead_letters: Api) -> None:
    for result in (
        ask(with_kafka(api_with_dead_letters, OtherCluster()), "GET", PATH),
        replay(api_with_dead_letters),
    ):
        assert result == (404, {"error_code": 404, "message": "The connector reads elsewhere."})
    client = with_kafka(api_with_dead_letters, UnavailableKafka()).client
    for response in (client.get(PATH), client.post(f"{PATH}/replay", json={})):
        assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
        assert response.json()["message"] == "Kafka at k:1 failed to list offsets of topic dead: timed out"


def test_replay_with_rejected_writes_commits_no_offsets(api_with_dead_letters: Api) -> None:
    api_with_dead_letters.kafka.refuses = True
    assert replay(api_with_dead_letters)[0] == 503
    assert api_with_dead_letters.kafka.groups == {}


def test_paths_return_404_without_kafka(api_with_dead_letters: Api) -> None:
    with_kafka(api_with_dead_letters, None)
    for response in (ask(api_with_dead_letters, "GET", PATH), replay(api_with_dead_letters)):
        assert response == (404, {"error_code": 404, "message": "HTTP 404 Not Found"})


@pytest.mark.parametrize("limit", ["0", "101", "-1", "1.5", "x", "٣", ""])
def test_listing_rejects_an_invalid_limit(api_with_dead_letters: Api, limit: str) -> None:
    response = api_with_dead_letters.client.get(PATH, params={"limit": limit})
    assert (response.status_code, response.json()["message"]) == (
        400,
        f"Invalid limit '{limit}'; expected a whole number from 1 to 100.",
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "The request body is empty; it must be a JSON object"),
        ("[]", "The request body must be a JSON object, but is an array"),
        ('{"limit": 0}', "Field limit must be a whole number from 1 to 10000"),
        ('{"limit": 10001}', "Field limit must be a whole number from 1 to 10000"),
        ('{"limit": "3"}', "Field limit must be a whole number from 1 to 10000"),
        ('{"limit": 1.5}', "Field limit must be a whole number from 1 to 10000"),
        ('{"limit": 1e99999999999999999999}', "Field limit must be a whole number from 1 to 10000"),
        ('{"limit": null}', "Field limit must be a whole number from 1 to 10000"),
        ('{"dry_run": null}', "Field dry_run must be a boolean, but is null"),
        ('{"dry_run": "yes"}', "Field dry_run must be a boolean, but is a string"),
        ('{"from": []}', "Field from must be a JSON object, but is an array"),
        ('{"from": {"0": "1"}}', INVALID_START_ERROR),
        ('{"from": {"x": 1}}', INVALID_START_ERROR),
        ('{"from": {"0": -1}}', INVALID_START_ERROR),
        ('{"from": {"0": 1.5}}', INVALID_START_ERROR),
        ('{"to": "x"}', 'Unknown field "to" in the request body; its fields are limit, dry_run, from'),
    ],
)
def test_replay_rejects_an_invalid_body(api_with_dead_letters: Api, body: str, text: str) -> None:
    status, error = api_with_dead_letters.request("POST", f"{PATH}/replay", body)
    assert (status, json.loads(error)["message"]) == (400, text)
    assert api_with_dead_letters.kafka.written == []


@pytest.mark.parametrize("limit", ["2", "2.0", "2e0", "0.2E1"])
def test_limit_accepts_json_numbers(api_with_dead_letters: Api, limit: str) -> None:
    _, text = api_with_dead_letters.request("POST", f"{PATH}/replay", f'{{"limit": {limit}}}')
    assert json.loads(text)["written"] == {"orders": 2}


class BlockingKafka(MemoryKafka):
    """Kafka cluster that blocks writes until `release` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.write_started, self.release = threading.Event(), threading.Event()

    @override
    def write(self, letters: Sequence[tuple[DeadLetter, Target]]) -> None:
        self.write_started.set()
        assert self.release.wait(20)
        super().write(letters)


def test_concurrent_replay_is_rejected(api_with_dead_letters: Api) -> None:
    blocking_kafka = BlockingKafka()
    blocking_kafka.letters = api_with_dead_letters.kafka.letters
    app = with_kafka(api_with_dead_letters, blocking_kafka).client.app

    async def scenario() -> None:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://worker:8083") as client:
            first = asyncio.create_task(client.post(f"{PATH}/replay", json={}))
            await asyncio.to_thread(blocking_kafka.write_started.wait, 20)
            second = await client.post(f"{PATH}/replay", json={})
            assert (second.status_code, second.headers["Retry-After"]) == (409, "1")
            assert (await client.post(f"{PATH}/replay", json={"dry_run": True})).status_code == 200
            blocking_kafka.release.set()
            assert (await first).json()["written"] == {"orders": 3}
            assert (await client.post(f"{PATH}/replay", json={})).json()["written"] == {}

    asyncio.run(scenario())
    assert len(blocking_kafka.written) == 3
