"""Tests for `kraal offsets`."""

from __future__ import annotations

import json

import pytest

from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Files, Kraal

SOURCE_OFFSETS = {"offsets": [{"partition": {"filename": "ä"}, "offset": {"position": 42}}]}


SINK_OFFSETS = {
    "offsets": [
        {"partition": {"kafka_topic": "t", "kafka_partition": n}, "offset": {"kafka_offset": n * 10}}
        for n in (10, 2)
    ]
}


def test_get_shows_offsets_of_sources_and_sinks(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", "/connectors/a/offsets?expand=lag", ScriptedResponse(200, SOURCE_OFFSETS))
    worker.script("GET", "/connectors/b/offsets?expand=lag", ScriptedResponse(200, SINK_OFFSETS))
    worker.script("GET", "/connectors/c/offsets?expand=lag", ScriptedResponse(200, {"offsets": []}))
    assert (
        kraal.out("offsets", "get", "a")
        == 'PARTITION           OFFSET\n{"filename": "ä"}   {"position": 42}\n'
    )
    assert kraal.out("offsets", "get", "b") == (
        "TOPIC   PARTITION   OFFSET   LAG\nt       2           20       -\nt       10          100      -\n"
    )
    assert kraal("offsets", "get", "c").stderr == "No offsets.\n"


def test_get_shows_the_lag_of_a_sink(kraal: Kraal, worker: Connect) -> None:
    lags = [7, None]
    offsets = [{**entry, "lag": lag} for entry, lag in zip(SINK_OFFSETS["offsets"], lags, strict=True)]
    worker.script("GET", "/connectors/b/offsets?expand=lag", ScriptedResponse(200, {"offsets": offsets}))
    assert kraal.out("offsets", "get", "b") == (
        "TOPIC   PARTITION   OFFSET   LAG\nt       2           20       -\nt       10          100      7\n"
    )
    assert json.loads(kraal.out("offsets", "get", "b", "-o", "json"))["offsets"] == offsets


@pytest.mark.parametrize("output_format", ["json", "yaml"])
@pytest.mark.parametrize("extra_fields", [{}, {"lag": 3}])
def test_output_of_get_is_accepted_by_alter(
    kraal: Kraal, worker: Connect, write: Files, output_format: str, extra_fields: dict[str, int]
) -> None:
    response = {"offsets": [{**SOURCE_OFFSETS["offsets"][0], **extra_fields}]}
    worker.script("GET", "/connectors/a/offsets?expand=lag", ScriptedResponse(200, response))
    worker.script("PATCH", "/connectors/a/offsets", ScriptedResponse(200, {"message": "done"}))
    path = write(f"offsets.{output_format}", kraal.out("offsets", "get", "a", "-o", output_format))
    assert kraal.out("offsets", "alter", "a", "-f", path) == "a: done\n"
    assert json.loads(worker.received_requests[-1].body) == SOURCE_OFFSETS


def test_alter_accepts_offsets_on_the_command_line(kraal: Kraal, worker: Connect) -> None:
    worker.script("PATCH", "/connectors/a/offsets", ScriptedResponse(200, {"message": "done"}))
    kraal.out("offsets", "alter", "a", "--set", '{"f": 1}', '{"position": 0}', "--set", '{"f": 2}', "null")
    assert json.loads(worker.received_requests[-1].body) == {
        "offsets": [
            {"partition": {"f": 1}, "offset": {"position": 0}},
            {"partition": {"f": 2}, "offset": None},
        ]
    }


def test_reset_deletes_offsets(kraal: Kraal, worker: Connect) -> None:
    worker.script("DELETE", "/connectors/a/offsets", ScriptedResponse(200, {"message": "gone"}))
    assert kraal.out("offsets", "reset", "a") == "a: gone\n"


def test_running_connector_is_an_error_with_a_hint(kraal: Kraal, worker: Connect) -> None:
    text = "Connectors must be in the STOPPED state before their offsets can be modified."
    worker.refuse("DELETE", "/connectors/a/offsets", 400, text)
    assert kraal.error("offsets", "reset", "a") == (
        f"Error: a: {worker.url} returned 400: {text} (kraal stop a --wait)"
    )


def test_missing_offsets_endpoint_is_reported(kraal: Kraal, worker: Connect) -> None:
    worker.refuse("GET", "/connectors/a/offsets?expand=lag", 404, "HTTP 404 Not Found")
    assert "this worker does not support offset requests" in kraal.error("offsets", "get", "a")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 2),
        (["alter", "a"], 2),
        (["alter", "a", "--set", "{", "null"], 2),
        (["alter", "a", "-f", "missing.json"], 1),
        (["get"], 2),
        (["get", ""], 2),
        (["nonsense"], 2),
    ],
)
def test_invalid_arguments_are_rejected(
    kraal: Kraal, worker: Connect, arguments: list[str], code: int
) -> None:
    assert (kraal("offsets", *arguments).exit_code, worker.requests()) == (code, [])
