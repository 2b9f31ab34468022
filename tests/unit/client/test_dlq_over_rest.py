"""Tests that `kraal dlq` prints the same output over the REST API as with a direct connection to the brokers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kraal.client import dead_letters as over_rest
from kraal.dead_letters import kafka
from kraal.dead_letters.records import DeadLetter, from_json, to_json_object
from kraal.testing._simulation.plugins import FAKE_SINK
from tests.fakes.kafka.dead_letters import letter
from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Kraal

CONFIG = {"connector.class": FAKE_SINK, "topics": "orders", "errors.deadletterqueue.topic.name": "dead"}
SINK = "orders-sink"
BROKERS = ("--bootstrap-servers", "k:9092")
PATH = f"/connectors/{SINK}/dead-letters"


@pytest.fixture(autouse=True)
def _dead_letters(worker: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write three dead letters of a connector and one of another connector to Kafka, which both transports read."""
    monkeypatch.setattr(kafka, "Kafka", worker.kafka)
    monkeypatch.delenv("KRAAL_BOOTSTRAP_SERVERS", raising=False)
    worker.create(SINK, {"name": SINK, **CONFIG})
    worker.kafka.letters["dead"] = [letter(0), letter(1, connector="other"), letter(2), letter(3)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("ls",),
        ("ls", "-o", "json"),
        ("show", SINK),
        ("show", SINK, "--limit", "2", "--stack"),
        ("show", SINK, "--json"),
        ("replay", SINK, "--dry-run"),
        ("replay", SINK, "--dry-run", "--limit", "1"),
    ],
    ids=" ".join,
)
def test_output_is_identical_with_and_without_brokers(
    kraal: Kraal, worker: Connect, arguments: tuple[str, ...]
) -> None:
    kafka_output = kraal.out("dlq", *arguments, *BROKERS)
    assert not any(PATH in request for request in worker.requests("GET", "POST"))
    assert kraal.out("dlq", *arguments) == kafka_output != ""
    assert any(PATH in request for request in worker.requests("GET", "POST"))


def test_replay_resumes_after_the_previous_replay(kraal: Kraal, worker: Connect) -> None:
    assert kraal.out("dlq", "replay", SINK, "--limit", "1") == "1 dead letter from dead written to orders\n"
    assert kraal.out("dlq", "replay", SINK, *BROKERS) == "2 dead letters from dead written to orders\n"
    assert [dead_letter.value for dead_letter, _ in worker.kafka.written] == [b"bad 0", b"bad 2", b"bad 3"]
    assert kraal("dlq", "replay", SINK).stderr == "Nothing to replay in dead.\n"


def test_long_replay_sends_several_requests(
    kraal: Kraal, worker: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_rest, "MAX_REPLAYED", 2)
    worker.kafka.letters["dead"] = [letter(number) for number in range(5)]
    assert kraal.out("dlq", "replay", SINK) == "5 dead letters from dead written to orders\n"
    assert worker.requests("POST") == [f"POST {PATH}/replay"] * 3


def test_letters_arriving_during_a_replay_are_not_replayed(kraal: Kraal, worker: Connect) -> None:
    """Each response reports new letters, as if every replayed record failed again."""
    response = {
        "topic": "dead",
        "dry_run": False,
        "written": {"orders": 2},
        "targets": [],
        "left_to_replay": 2,
    }
    worker.script("POST", f"{PATH}/replay", *(ScriptedResponse(200, response) for _ in range(9)))
    assert kraal.out("dlq", "replay", SINK) == "4 dead letters from dead written to orders\n"
    assert len(worker.requests("POST")) == 2


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("show", "dead", "--topic"), "--topic"),
        (("show", SINK, "--partition", "0", "--offset", "1"), "--partition"),
        (("show", SINK, "--limit", "101"), "--limit"),
        (("replay", SINK, "--to", "retry"), "--to"),
        (("replay", SINK, "--from-beginning"), "--from-beginning"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_option_unsupported_over_rest_requires_brokers(
    kraal: Kraal, worker: Connect, arguments: tuple[str, ...], option: str
) -> None:
    result = kraal("dlq", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{option} requires --bootstrap-servers" in result.stderr
    assert worker.kafka.written == []


def test_missing_dead_letters_endpoint_is_reported(kraal: Kraal, worker: Connect) -> None:
    worker.refuse("GET", f"{PATH}?limit=10", 404, "HTTP 404 Not Found")
    message = kraal.error("dlq", "show", SINK)
    assert message.endswith(
        "does not serve dead letters; specify --bootstrap-servers to read them from Kafka"
    )


def test_unknown_connector_is_not_a_missing_endpoint(kraal: Kraal) -> None:
    assert "does not serve" not in kraal.error("dlq", "show", "nobody")


@pytest.mark.parametrize(
    "dead_letter", [letter(0), letter(1, connector=None), replace(letter(2), key=None, value=b"\xff\x00")]
)
def test_letter_round_trips_through_json(dead_letter: DeadLetter) -> None:
    assert to_json_object(from_json(to_json_object(dead_letter))) == to_json_object(dead_letter)


def test_show_reports_values_truncated_by_the_worker(kraal: Kraal, worker: Connect) -> None:
    worker.kafka.letters["dead"] = [replace(letter(0), value=b"x" * 10_000)]
    assert "  truncated   value of 10,000 bytes" in kraal.out("dlq", "show", SINK).splitlines()
    [line] = kraal.out("dlq", "show", SINK, "--json").splitlines()
    assert json.loads(line)["truncated"] == {"value": 10_000}
    assert json.loads(line)["value"] == "x" * 4096
