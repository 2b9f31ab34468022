"""Tests for `kraal explain`."""

from __future__ import annotations

import json
from typing import Any

from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.commands.conftest import HOST
from tests.unit.client.conftest import Kraal


def make_instance(**fields: Any) -> dict[str, Any]:
    return {
        "state": "RUNNING",
        "worker_id": "w1:8083",
        "generation": 3,
        "placement": None,
        "reasons": [],
        "events": [],
        **fields,
    }


def test_explain_shows_worker_and_reasons_of_a_connector_and_its_tasks(
    kraal: Kraal, populated_worker: Connect
) -> None:
    del populated_worker
    assert kraal.out("explain", "orders") == (
        "Connector orders (source), target state STARTED\n"
        f"  State:   RUNNING on {HOST}\n"
        "  Where:   A standalone worker runs all connectors and tasks.\n"
        f"           Assigned to http://{HOST}/\n"
        "\n"
        "Task orders-0\n"
        f"  State:   RUNNING on {HOST}\n"
        "  Where:   A standalone worker runs all connectors and tasks.\n"
        f"           Assigned to http://{HOST}/\n"
        "\n"
        "Task orders-1\n"
        f"  State:   FAILED on {HOST}\n"
        "  Where:   A standalone worker runs all connectors and tasks.\n"
        f"           Assigned to http://{HOST}/\n"
        "  Why:     java.io.IOException: disk full\n"
    )


def test_explain_shows_a_task_with_its_events(kraal: Kraal, worker: Connect) -> None:
    placement = {
        "kind": "lost",
        "worker": None,
        "generation": 3,
        "why": "Its worker has left the group.",
        "rebalance": "left: http://w2:8083/",
        "until_ms": 1_700_000_300_000,
    }
    reasons = [{"kind": "target", "text": "one"}, {"kind": "waiting", "text": "two"}]
    event = {"ms": 1_700_000_000_000, "worker_id": "w1:8083", "kind": "restart", "text": "restart requested"}
    task = make_instance(
        id=0,
        placement=placement,
        reasons=reasons,
        events=[{**event, "by": "POST from 10.0.0.9"}, {**event, "by": ""}],
    )
    response = {
        "name": "c",
        "type": "sink",
        "target": "PAUSED",
        "connector": make_instance(),
        "tasks": [task],
        "silent": ["w9"],
    }
    worker.refuse("GET", "/connectors/c-0/explain", 404, "Connector c-0 not found")
    worker.script("GET", "/connectors/c/explain", ScriptedResponse(body=response))
    assert kraal.out("explain", "c-0") == (
        "Task c-0\n"
        "  State:   RUNNING on w1:8083\n"
        "  Where:   Its worker has left the group.\n"
        "           Rebalance reason: left: http://w2:8083/\n"
        "           Waits until 2023-11-14 22:18:20+00:00 at the latest\n"
        "  Why:     one\n"
        "           two\n"
        "  Events:\n"
        "    2023-11-14 22:13:20+00:00  restart requested (POST from 10.0.0.9)\n"
        "    2023-11-14 22:13:20+00:00  restart requested\n"
        "\n"
        "No response from w9; their data is missing.\n"
    )
    assert "Unknown: the leader did not respond" in kraal.out("explain", "c")
    assert json.loads(kraal.out("explain", "c", "-o", "json")) == response
    assert [row["id"] for row in json.loads(kraal.out("explain", "c-0", "-o", "json"))["tasks"]] == [0]


def test_explain_rejects_unknown_names(kraal: Kraal, populated_worker: Connect) -> None:
    assert kraal.error("explain", "nobody").endswith("returned 404: Connector nobody not found")
    assert kraal.error("explain", "nobody-7").endswith("returned 404: Connector nobody-7 not found")
    assert kraal.error("explain", "orders-7").endswith(
        "Task orders-7 not found; connector orders has no task 7."
    )
    populated_worker.refuse("GET", "/connectors/orders/explain", 404, "HTTP 404 Not Found")
    assert kraal.error("explain", "orders").endswith(
        "this worker does not explain connectors: it is not a Kraal worker, or an older one"
    )
