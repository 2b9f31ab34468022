"""Tests for `/connectors/{c}/proof`: start, state and result of a proof, and errors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.errors import KraalError
from kraal.core.ids import State, WorkerId
from kraal.core.offsets import SourcePartition
from kraal.plugins.api import NotComparable
from kraal.proof.differences import Differences, Span
from scripts.harness.processes import wait_until
from tests.fakes.proofs import NOW_MS, ORDERS
from tests.unit.web.api import Api, status
from tests.unit.web.workers import FakePeer, Worker

PATH = "/connectors/orders-sink/proof"


@pytest.fixture
def api_with_sinks(api: Api) -> Api:
    for name, kind in (("orders-sink", "sink"), ("other-sink", "sink"), ("orders-source", "source")):
        api.herder.put(name, {"topics": "orders"})
        api.herder.publish(types={name: kind})
    api.herder.publish(types={"orders-sink": "sink", "other-sink": "sink", "orders-source": "source"})
    return api


def ask(api: Api, method: str, path: str = PATH) -> tuple[int, Any]:
    code, text = api.request(method, path)
    return code, json.loads(text)


def wait_for_end(api: Api) -> Any:
    api.proof.may_end.set()
    wait_until("the proof ended", lambda: ask(api, "GET")[1]["state"] != "RUNNING", timeout_s=30)
    return ask(api, "GET")[1]


def test_proof_runs_in_the_background(api_with_sinks: Api) -> None:
    api = api_with_sinks
    running_state = {
        "connector": "orders-sink", "state": "RUNNING", "started_ms": NOW_MS, "ended_ms": None, "since_ms": None,
        "sample_percent": None, "reason": None, "result": None,
    }  # fmt: skip
    assert ask(api, "POST") == (202, running_state)
    assert ask(api, "GET") == (200, running_state)
    assert ask(api, "POST") == (202, running_state), "a second request starts no second proof"
    assert wait_for_end(api) == running_state | {
        "state": "PROVED",
        "ended_ms": NOW_MS,
        "result": {
            "partitions": [{"topic": "orders", "partition": 0, "first": 0, "end": 7}],
            "source_offsets": None, "partial": False, "expected_rows": 7, "stored_rows": 7,
            "missing": {"rows": 0, "offsets": [], "source_records": [], "keys": []},
                "repeated": {"rows": 0, "offsets": []},
            "unexpected": {"rows": 0, "offsets": [], "keys": []}, "not_compared": [],
            "dead_letters": 1, "tolerated": None, "dropped": None,
        },
    }  # fmt: skip
    assert len(api.proof.requests) == 1


def test_differences_are_listed_with_their_offsets(api_with_sinks: Api) -> None:
    span = Span(group=ORDERS, first=3, last=4)
    api_with_sinks.proof.differences = Differences(missing_count=2, missing=(span,))
    ask(api_with_sinks, "POST", f"{PATH}?since={NOW_MS - 5000}")
    state = wait_for_end(api_with_sinks)
    assert (state["state"], state["since_ms"]) == ("DIFFERENT", NOW_MS - 5000)
    offsets = [{"topic": "orders", "partition": 0, "first": 3, "last": 4}]
    assert state["result"]["missing"] == {"rows": 2, "offsets": offsets, "source_records": [], "keys": []}
    assert api_with_sinks.proof.requests[0].max_age_ms == 5000


def test_sample_is_a_percentage(api_with_sinks: Api) -> None:
    ask(api_with_sinks, "POST", f"{PATH}?sample=0.5")
    assert wait_for_end(api_with_sinks)["sample_percent"] == 0.5
    assert api_with_sinks.proof.requests[0].sample_percent == 0.5
    assert api_with_sinks.proofs.metrics() == [], "the metrics are those of complete proofs"


def test_proof_of_a_source_gets_its_tasks_and_its_offsets(api_with_sinks: Api) -> None:
    assert ask(api_with_sinks, "POST", "/connectors/orders-source/proof")[0] == 202
    wait_until("the proof ran", lambda: len(api_with_sinks.proof.requests) == 1, timeout_s=30)
    api_with_sinks.proof.may_end.set()
    request = api_with_sinks.proof.requests[0]
    assert (request.committed, request.source is not None) == ({}, True)
    assert request.source is not None
    assert request.source.task_configs == []
    assert request.source.read_offsets() == {SourcePartition.of({"filename": "orders.txt"}): {"position": 7}}


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotComparable("it has no file"), "it has no file"),
        (KraalError("no provider"), "no provider"),
        (ZeroDivisionError("a defect"), "ZeroDivisionError: a defect"),
    ],
    ids=repr,
)
def test_failed_proof_is_undecided_with_its_reason(
    api_with_sinks: Api, error: Exception, reason: str
) -> None:
    api_with_sinks.proof.error = error
    ask(api_with_sinks, "POST")
    state = wait_for_end(api_with_sinks)
    assert (state["state"], state["reason"], state["result"]) == ("UNDECIDED", reason, None)


def test_worker_runs_one_proof_at_a_time(api_with_sinks: Api) -> None:
    ask(api_with_sinks, "POST")
    status, error = ask(api_with_sinks, "POST", "/connectors/other-sink/proof")
    assert (status, error["message"]) == (
        409,
        "Connector orders-sink is being proved; a worker runs one proof at a time. Retry later.",
    )
    wait_for_end(api_with_sinks)
    assert ask(api_with_sinks, "POST", "/connectors/other-sink/proof")[0] == 202


def test_closing_cancels_the_proof(api_with_sinks: Api) -> None:
    ask(api_with_sinks, "POST")
    wait_until("the proof ran", lambda: len(api_with_sinks.proof.requests) == 1, timeout_s=30)
    api_with_sinks.proofs.close()
    assert ask(api_with_sinks, "GET")[1]["reason"] == "the proof was cancelled"


def run_tasks(*workers: str) -> ConnectorStatuses:
    """Return statuses with one task on each of these workers."""
    tasks = {
        number: replace(status(State.RUNNING), worker_id=WorkerId(worker))
        for number, worker in enumerate(workers)
    }
    return ConnectorStatuses(connector=tasks[0], tasks=tasks)


def test_any_worker_returns_the_latest_proof_of_all_workers(follower: Worker, leader: Worker) -> None:
    names = [urlsplit(worker.url).netloc for worker in (follower, leader)]
    for worker, name in zip((follower, leader), names, strict=True):
        worker.api.herder.publish(worker_id=WorkerId(name), types={"orders-sink": "sink"})
        worker.api.herder.put("orders-sink", {}, tasks=2, statuses=run_tasks(*names))
    assert follower.ask("GET", PATH).status_code == 404
    assert leader.ask("POST", PATH).status_code == 202
    assert follower.ask("GET", PATH).json()["state"] == "RUNNING"
    leader.api.proof.may_end.set()
    wait_until("the proof ended", lambda: leader.ask("GET", PATH).json()["state"] == "PROVED", timeout_s=30)
    assert follower.ask("GET", PATH).json() == leader.ask("GET", PATH).json()
    assert follower.ask("GET", f"{PATH}?forward=false").status_code == 404
    follower.ask("POST", PATH)
    assert leader.ask("GET", PATH).json()["state"] == "RUNNING"
    follower.api.proof.may_end.set()


@pytest.mark.parametrize("body", [b"[]", b'{"state":"PROVED"}', b'{"state":7,"started_ms":1,"result":null}'])
def test_malformed_proof_of_another_worker_is_ignored(
    follower: Worker, peer: tuple[str, FakePeer], body: bytes
) -> None:
    url, fake_peer = peer
    fake_peer.status, fake_peer.body = 200, body
    name = urlsplit(follower.url).netloc
    follower.api.herder.publish(worker_id=WorkerId(name), generation=2)  # members are looked up again
    follower.api.herder.put("other-sink", {}, tasks=2, statuses=run_tasks(name, urlsplit(url).netloc))
    assert follower.ask("GET", "/connectors/other-sink/proof").status_code == 404
    assert len(fake_peer.requests) == 1


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("POST", "/connectors/nobody/proof", 404, "Connector nobody not found"),
        ("GET", "/connectors/nobody/proof", 404, "Connector nobody not found"),
        (
            "GET",
            PATH,
            404,
            "Connector orders-sink has not been proved since its workers started; send a POST first.",
        ),
        (
            "POST",
            f"{PATH}?since=yesterday",
            400,
            "Invalid since 'yesterday'; expected milliseconds since the epoch, a whole number.",
        ),
        *(
            (
                "POST",
                f"{PATH}?sample={text}",
                400,
                f"Invalid sample '{text}'; expected a percentage greater than 0 and at most 100, such as 0.5.",
            )
            for text in ("0", "100.5", "1e1", "-1", "half")
        ),
    ],
)
def test_invalid_request_is_rejected(
    api_with_sinks: Api, method: str, path: str, code: int, message: str
) -> None:
    assert ask(api_with_sinks, method, path) == (code, {"error_code": code, "message": message})


def test_java_transforms_make_the_proof_undecided(api_with_sinks: Api) -> None:
    api_with_sinks.proofs.needs_java = lambda config: config["topics"] == "orders"
    ask(api_with_sinks, "POST")
    state = wait_for_end(api_with_sinks)
    assert (state["state"], state["reason"]) == (
        "UNDECIDED",
        "its transforms or converters are Java classes, which a proof cannot run",
    )
