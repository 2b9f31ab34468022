"""Tests for `kraal status`."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kraal.config.yaml_text import convert_scalar, read_yaml
from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.commands.conftest import HOST
from tests.unit.client.conftest import Kraal


def test_status_has_a_row_per_task(kraal: Kraal, populated_worker: Connect) -> None:
    assert populated_worker.states("orders") == ["RUNNING", "RUNNING", "FAILED"]
    assert kraal.out("status", "orders") == (
        "NAME     TASK   STATE     WORKER           TRACE\n"
        f"orders   -      RUNNING   {HOST}\n"
        f"orders   0      RUNNING   {HOST}\n"
        f"orders   1      FAILED    {HOST}   java.io.IOException: disk full\n"
    )
    assert kraal.out("status").count("\n") == 6


def test_wide_status_has_metrics_and_the_latest_proof(kraal: Kraal, populated_worker: Connect) -> None:
    proof = {"state": "PROVED", "started_ms": 1_700_000_000_000}
    populated_worker.script("GET", "/connectors/orders/proof", ScriptedResponse(200, proof))
    status = populated_worker.worker.status("orders")
    metrics = {"id": 0, "records_total": 12_345, "errors": {"skipped": 3}, "backlog_records": None}
    parts = {"status": status, "progress": {"tasks": [metrics]}}
    populated_worker.script(
        "GET", "/connectors?expand=status&expand=progress", ScriptedResponse(200, {"orders": parts})
    )
    populated_worker.script(
        "GET",
        "/connectors/orders/status?expand=progress",
        ScriptedResponse(200, status | {"progress": 7} | parts),
    )
    rows = [
        ["NAME", "TASK", "STATE", "WORKER", "RECORDS", "SKIPPED", "BACKLOG", "LEDGER", "PROOF", "TRACE"],
        ["orders", "-", "RUNNING", HOST, "-", "-", "-", "-", "PROVED 2023-11-14 22:13 UTC"],
        ["orders", "0", "RUNNING", HOST, "12,345", "3", "-", "-", "-"],
        ["orders", "1", "FAILED", HOST, "-", "-", "-", "-", "-", "java.io.IOException: disk full"],
    ]
    assert split_rows(kraal.out("status", "orders", "-o", "wide")) == rows
    without_status = ["archive", *["-"] * 8, "no status yet"]
    assert split_rows(kraal.out("status", "-o", "wide")) == [rows[0], without_status, *rows[1:]]


@pytest.mark.parametrize(
    ("breaks", "uncounted", "verdict"),
    [((0, 0), 0, "ok"), ((0, 0), 1200, "ok, 1,200 uncounted"), ((1, 2), 5, "3 breaks")],
)
def test_wide_status_has_the_verdict_of_the_ledger(
    kraal: Kraal, populated_worker: Connect, breaks: tuple[int, int], uncounted: int, verdict: str
) -> None:
    tasks = [{"break_count": count} for count in breaks]
    totals = {"tasks": tasks, "partitions": [{"uncounted_count": uncounted}]}
    populated_worker.script("GET", "/connectors/orders/ledger", ScriptedResponse(200, totals))
    rows = split_rows(kraal.out("status", "orders", "-o", "wide"))
    assert [row[7] for row in rows] == ["LEDGER", verdict, "-", "-"]


def split_rows(text: str) -> list[list[str]]:
    """Return the cells of a table."""
    return [re.split(r" {2,}", line) for line in text.splitlines()]


@pytest.mark.parametrize("output_format", ["json", "yaml"])
@pytest.mark.parametrize("command", ["ls", "status"])
def test_structured_output_is_the_response(
    kraal: Kraal, populated_worker: Connect, command: str, output_format: str
) -> None:
    text = kraal.out(command, "-o", output_format)
    output: Any = json.loads(text) if output_format == "json" else read_yaml(text, convert_scalar)[0]
    assert [status["name"] for status in output] == ["archive", "orders"]
    assert output[1] == populated_worker.worker.status("orders")


def test_unknown_connector_does_not_hide_other_statuses(kraal: Kraal, populated_worker: Connect) -> None:
    result = kraal("status", "nobody", "archive")
    assert (result.exit_code, result.stdout.count("archive")) == (1, 2)
    assert result.stderr == (
        f"Error: nobody: {populated_worker.url} returned 404: Connector nobody not found\n"
        "Hint: `kraal ls` lists the connectors of the worker.\n"
    )


def test_connector_without_a_status_is_shown(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", "/connectors", ScriptedResponse(200, ["new"]))
    worker.script("GET", "/connectors?expand=status", ScriptedResponse(200, {}))
    assert kraal.out("ls").splitlines()[1] == "new    -      -       -       -"
    assert kraal.out("status").splitlines()[1] == "new    -      -       -        no status yet"


def test_root_cause_of_a_java_trace_is_shown(kraal: Kraal, populated_worker: Connect) -> None:
    populated_worker.fail(
        "orders", 0, "a.ConnectException: Tolerance exceeded\n\tat b.C\nCaused by: d.E: no JSON\n\tat f.G"
    )
    assert "d.E: no JSON" in kraal.out("status")
    assert "Tolerance" not in kraal.out("status")


def test_control_characters_in_traces_are_escaped(kraal: Kraal, populated_worker: Connect) -> None:
    populated_worker.fail("orders", 0, "\x1b[2Jgone")
    assert "\\x1b[2Jgone" in kraal.out("status")
    assert "\\x1b[2Jgone" in kraal.out("describe", "orders")
    populated_worker.fail("archive", 0, "\x9b2J\u202e")
    text = kraal.out("status", "archive", "-o", "json")
    assert "\\u009b2J\\u202e" in text
    assert json.loads(text)[0]["tasks"][0]["trace"] == "\x9b2J\u202e"
