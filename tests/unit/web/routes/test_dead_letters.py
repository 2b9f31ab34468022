"""`/connectors/{c}/dead-letters`: listing, replay and errors, with an in-memory Kafka."""

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
def sink(api: Api) -> Api:
    """API with a connector that has three dead letters, interleaved with one of another connector."""
    api.herder.put("orders-sink", CONFIG)
    api.herder.publish(types={"orders-sink": "sink"})
    api.kafka.letters["dead"] = [letter(0), letter(1, connector="other"), letter(2), letter(3)]
    return api


_START = 'Field from must contain partitions and their offsets, such as {"0": 17}'


def ask(api: Api, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    status, text = api.request(method, path, None if body is None else json.dumps(body))
    return status, json.loads(text)


def replay(api: Api, **body: Any) -> tuple[int, Any]:
    return ask(api, "POST", f"{PATH}/replay", body)


def test_shows_the_latest_letters_and_counts_all(sink: Api) -> None:
    status, body = ask(sink, "GET", f"{PATH}?limit=2")
    assert (status, [each["offset"] for each in body["shown"]]) == (200, [3, 2])
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
    assert [each["offset"] for each in ask(sink, "GET", PATH)[1]["shown"]] == [3, 2, 0], (
        "another's is not shown"
    )
    assert sink.kafka.settings == {**CONFIG, "name": "orders-sink"}


def test_missing_topic_has_no_letters(api: Api) -> None:
    api.herder.put("new", {**CONFIG, "errors.deadletterqueue.topic.name": "later"})
    nothing = {"topic": "later", "letters": 0, "left_to_replay": 0, "searched": 0, "shown": []}
    assert ask(api, "GET", "/connectors/new/dead-letters") == (200, nothing)
    assert ask(api, "POST", "/connectors/new/dead-letters/replay", {}) == (
        200, {"topic": "later", "dry_run": False, "written": {}, "targets": [], "left_to_replay": 0}
    )  # fmt: skip


def test_large_letters_are_truncated_and_the_response_is_limited(sink: Api) -> None:
    huge = replace(letter(0), value=b"x" * 1_000_000, key=b"\x00" * 5_000)
    sink.kafka.letters["dead"] = [replace(huge, offset=number) for number in range(100)]
    answer = sink.client.get(f"{PATH}?limit=100")
    assert len(answer.content) < 1.1 * 1024 * 1024
    shown_letters = answer.json()["shown"]
    assert len(shown_letters) < 100
    assert shown_letters[0]["offset"] == 99
    assert (len(shown_letters[0]["value"]), shown_letters[0]["truncated"]) == (
        4_096,
        {"key": 5_000, "value": 1_000_000},
    )


def test_exceeding_the_read_limits_is_an_error(sink: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "_MAX_READ_BYTES", 10)
    status, error = ask(sink, "GET", PATH)
    assert status == 503
    assert error["message"].endswith("more than 10 bytes; set a smaller limit.")
    assert ask(sink, "GET", f"{PATH}?limit=1")[0] == 200, "one fits"


def test_secrets_in_errors_are_hidden(sink: Api) -> None:
    secrets.add("hunter2-hunter2")
    sink.kafka.letters["dead"] = [letter(0, {"exception.message": "at hunter2-hunter2"})]
    (shown_letters,) = ask(sink, "GET", PATH)[1]["shown"]
    assert shown_letters["error"]["message"] == "at [hidden]"


def test_replay_resumes_after_the_previous_replay(sink: Api) -> None:
    first = {"partition": 0, "offset": 0, "to_topic": "orders", "to_partition": 1}
    assert replay(sink, limit=1) == (
        200, {"topic": "dead", "dry_run": False, "written": {"orders": 1}, "targets": [first], "left_to_replay": 3}
    )  # fmt: skip
    status, body = replay(sink)
    assert (status, body["written"], body["left_to_replay"]) == (200, {"orders": 2}, 0)
    assert replay(sink)[1]["written"] == {}
    assert [each.offset for each, _ in sink.kafka.written] == [0, 2, 3]
    assert sink.kafka.groups == {GROUP: {0: 4}}, "the group of `kraal dlq replay`"
    assert ask(sink, "GET", PATH)[1]["left_to_replay"] == 0


def test_dry_run_reports_the_replay(sink: Api) -> None:
    status, body = replay(sink, dry_run=True, limit=2)
    assert (status, body["dry_run"], body["written"], body["left_to_replay"]) == (
        200,
        True,
        {"orders": 2},
        4,
    )
    assert [each["offset"] for each in body["targets"]] == [0, 2]
    assert (sink.kafka.written, sink.kafka.groups) == ([], {})


def test_repeated_replay_request_writes_letters_once(sink: Api) -> None:
    start = replay(sink, dry_run=True, limit=2)[1]["from"]
    assert start == {"0": 0}
    assert replay(sink, limit=2, **{"from": start})[1]["written"] == {"orders": 2}
    status, error = replay(sink, limit=2, **{"from": start})
    assert status == 409
    assert error["message"].startswith(
        "The dead letters of connector orders-sink have changed since they were listed"
    )
    assert [each.offset for each, _ in sink.kafka.written] == [0, 2], "the next one stays"
    assert replay(sink, dry_run=True)[1]["from"] == {"0": 3}
    assert replay(sink)[1]["written"] == {"orders": 1}
    assert replay(sink, dry_run=True)[1]["from"] == {}
    assert replay(sink, **{"from": {"0": 3}})[0] == 409, "nothing is left there"


def test_number_of_listed_targets_is_limited(sink: Api) -> None:
    sink.kafka.letters["dead"] = [letter(number) for number in range(150)]
    answer_body = replay(sink)[1]
    assert (answer_body["written"], len(answer_body["targets"])) == ({"orders": 150}, 100)


def test_unreplayable_letters_are_a_conflict(sink: Api) -> None:
    sink.kafka.letters["dead"] = [letter(0, connector=None)]
    status, error = replay(sink)
    assert (status, error["message"]) == (
        409,
        (
            "The original topic of dead-0@0 is unknown because it has no header __connect.errors.topic"
            " (errors.deadletterqueue.context.headers.enable was false); specify --to TOPIC to `kraal dlq replay`"
        ),
    )
    sink.kafka.letters["dead"] = [letter(0, {"topic": "gone"})]
    assert replay(sink, dry_run=True)[1]["message"] == "The original topic gone of dead-0@0 does not exist"


@pytest.mark.parametrize("topic", ["connect-configs", "__consumer_offsets", "secrets"])
def test_replay_into_a_foreign_topic_is_a_conflict(sink: Api, topic: str) -> None:
    sink.kafka.internal = frozenset({"connect-configs"})
    sink.kafka.partitions[topic] = 1
    sink.kafka.letters["dead"] = [letter(0), letter(1, {"topic": topic})]
    for dry_run in (True, False):
        status, error = replay(sink, dry_run=dry_run)
        assert (status, f"The original topic {topic} of dead-0@1 is " in error["message"]) == (409, True)
    assert sink.kafka.written == []


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
    """Kafka cluster that cannot be accessed."""

    @override
    def __call__(self, settings: Any) -> Any:
        raise NoDeadLetters("The connector reads elsewhere.")


class UnavailableKafka(MemoryKafka):
    """Kafka cluster that does not respond."""

    @override
    def spans(self, topic: str) -> Any:
        raise KafkaUnavailable("Kafka at k:1 failed to list offsets of topic dead: timed out")


def served_by(api: Api, kafka: MemoryKafka | None) -> Api:
    apps = create_apps(
        api.address, api.published, Registry.of({}), api.validate, Settings(advertised_url="http://worker:8083/"),
        dead_letters=kafka,
    )  # fmt: skip
    api.client = WebClient(apps.main)
    return api


def test_other_brokers_return_404_and_unavailable_kafka_503(sink: Api) -> None:
    for answer in (ask(served_by(sink, OtherCluster()), "GET", PATH), replay(sink)):
        assert answer == (404, {"error_code": 404, "message": "The connector reads elsewhere."})
    away = served_by(sink, UnavailableKafka()).client
    for response in (away.get(PATH), away.post(f"{PATH}/replay", json={})):
        assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
        assert response.json()["message"] == "Kafka at k:1 failed to list offsets of topic dead: timed out"


def test_rejected_replay_commits_no_offsets(sink: Api) -> None:
    sink.kafka.refuses = True
    assert replay(sink)[0] == 503
    assert sink.kafka.groups == {}


def test_paths_return_404_without_kafka(sink: Api) -> None:
    served_by(sink, None)
    for answer in (ask(sink, "GET", PATH), replay(sink)):
        assert answer == (404, {"error_code": 404, "message": "HTTP 404 Not Found"})


@pytest.mark.parametrize("limit", ["0", "101", "-1", "1.5", "x", "٣", ""])
def test_rejects_an_invalid_limit(sink: Api, limit: str) -> None:
    answer = sink.client.get(PATH, params={"limit": limit})
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        f"Invalid limit '{limit}'; allowed are whole numbers from 1 to 100.",
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
        ('{"from": {"0": "1"}}', _START),
        ('{"from": {"x": 1}}', _START),
        ('{"from": {"0": -1}}', _START),
        ('{"from": {"0": 1.5}}', _START),
        ('{"to": "x"}', 'Unknown field "to" in the request body; its fields are limit, dry_run, from'),
    ],
)
def test_rejects_an_invalid_body(sink: Api, body: str, text: str) -> None:
    status, error = sink.request("POST", f"{PATH}/replay", body)
    assert (status, json.loads(error)["message"]) == (400, text)
    assert sink.kafka.written == []


@pytest.mark.parametrize("limit", ["2", "2.0", "2e0", "0.2E1"])
def test_limit_accepts_json_numbers(sink: Api, limit: str) -> None:
    assert json.loads(sink.request("POST", f"{PATH}/replay", f'{{"limit": {limit}}}')[1])["written"] == {
        "orders": 2
    }


class BlockingKafka(MemoryKafka):
    """Kafka that blocks writes until the test permits them."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.let = threading.Event(), threading.Event()

    @override
    def write(self, letters: Sequence[tuple[DeadLetter, Target]]) -> None:
        self.writing.set()
        assert self.let.wait(20)
        super().write(letters)


def test_concurrent_replay_is_rejected(sink: Api) -> None:
    slow = BlockingKafka()
    slow.letters = sink.kafka.letters
    app = served_by(sink, slow).client.app

    async def story() -> None:
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://worker:8083") as client:
            first = asyncio.create_task(client.post(f"{PATH}/replay", json={}))
            await asyncio.to_thread(slow.writing.wait, 20)
            second = await client.post(f"{PATH}/replay", json={})
            assert (second.status_code, second.headers["Retry-After"]) == (409, "1")
            assert (await client.post(f"{PATH}/replay", json={"dry_run": True})).status_code == 200
            slow.let.set()
            assert (await first).json()["written"] == {"orders": 3}
            assert (await client.post(f"{PATH}/replay", json={})).json()["written"] == {}

    asyncio.run(story())
    assert len(slow.written) == 3
