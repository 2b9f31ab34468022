"""`kraal pause`, `resume`, `stop`, `restart`, and `offsets`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kraal.client.statuses import Verdict, verdict
from kraal.testing.plugins import FAKE_SOURCE
from tests.fakes.connect import Connect, Said
from tests.unit.client.conftest import Files, Kraal

OFFSETS = {"offsets": [{"partition": {"filename": "ä"}, "offset": {"position": 42}}]}
SINK = {
    "offsets": [
        {"partition": {"kafka_topic": "t", "kafka_partition": n}, "offset": {"kafka_offset": n * 10}}
        for n in (10, 2)
    ]
}


@pytest.fixture
def orders(worker: Connect) -> Connect:
    worker.create("orders", {"connector.class": FAKE_SOURCE, "tasks.max": "2"})
    worker.create("other", {"connector.class": FAKE_SOURCE})
    return worker


def test_states_are_set_and_waited_for(kraal: Kraal, orders: Connect) -> None:
    assert kraal.out("pause", "orders", "--wait") == "orders will pause\norders is PAUSED\n"
    assert kraal.out("stop", "orders", "--wait") == "orders will stop\norders is STOPPED\n"
    assert orders.states("orders") == ["STOPPED"]
    assert kraal.out("resume", "--all", "--wait") == (
        "orders will run\nother will run\norders is RUNNING\nother is RUNNING\n"
    )
    assert orders.states("orders") == ["RUNNING"] * 3


@pytest.mark.parametrize("command", ["pause", "resume", "stop", "restart"])
def test_names_or_all_but_not_both_nor_none(kraal: Kraal, orders: Connect, command: str) -> None:
    for arguments in ([], ["orders", "--all"]):
        result = kraal(command, *arguments)
        assert (result.exit_code, "Name connectors, or give --all." in result.stderr) == (2, True)
    assert orders.asked() == []


def test_an_unknown_connector_keeps_no_other_from_it(kraal: Kraal, orders: Connect) -> None:
    result = kraal("pause", "nobody", "orders")
    assert (result.exit_code, result.stdout) == (1, "orders will pause\n")
    assert result.stderr == f"Error: nobody: {orders.url} answered 404: Unknown connector nobody\n"


def test_waiting_ends(kraal: Kraal, orders: Connect) -> None:
    status = orders.worker.status("orders")
    orders.script("GET", "/connectors/orders/status", Said(200, status))
    result = kraal("pause", "orders", "--wait", "--timeout", "5")
    assert result.exit_code == 1
    assert kraal.clock.time == pytest.approx(5.0, abs=0.5)
    assert result.stderr == (
        "Error: orders is not PAUSED after 5 s: it is RUNNING, task 0 is RUNNING, task 1 is RUNNING\n"
    )


@pytest.mark.parametrize(
    ("options", "target", "said"),
    [
        ([], "restart?includeTasks=false&onlyFailed=false", "orders restarted"),
        (
            ["--tasks"],
            "restart?includeTasks=true&onlyFailed=false",
            "orders restarting: connector and tasks 0, 1",
        ),
        (["--only-failed"], "restart?includeTasks=false&onlyFailed=true", "orders: nothing to restart"),
        (
            ["--tasks", "--only-failed"],
            "restart?includeTasks=true&onlyFailed=true",
            "orders restarting: task 1",
        ),
        (["--task", "1"], "tasks/1/restart", "orders task 1 restarted"),
    ],
)
def test_restarts_are_those_of_kip_745(
    kraal: Kraal, orders: Connect, options: list[str], target: str, said: str
) -> None:
    orders.fail("orders", 1, "no")
    assert kraal.out("restart", "orders", *options) == f"{said}\n"
    assert orders.asked() == [f"POST /connectors/orders/{target}"]


def test_what_failed_anywhere_is_restarted_and_waited_for(kraal: Kraal, orders: Connect) -> None:
    orders.fail("other", 0, "no")
    assert kraal.out("restart", "--all", "--tasks", "--only-failed", "--wait") == (
        "orders: nothing to restart\nother restarting: task 0\norders is RUNNING\nother is RUNNING\n"
    )
    assert kraal.clock.time >= 2  # an old RUNNING could be shown for a moment


def test_what_fails_again_is_an_error(kraal: Kraal, worker: Connect) -> None:
    worker.create("bad", {"connector.class": FAKE_SOURCE, "fail.in": "start"})
    result = kraal("restart", "bad", "--tasks", "--wait")
    assert (result.exit_code, "Error: bad failed: it is FAILED" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments", [["a", "b", "--task", "0"], ["a", "--task", "0", "--tasks"], ["a", "--task", "-1"]]
)
def test_a_restart_that_means_nothing_is_a_usage_error(kraal: Kraal, arguments: list[str]) -> None:
    assert kraal("restart", *arguments).exit_code == 2


def test_an_unknown_task_is_an_error(kraal: Kraal, orders: Connect) -> None:
    del orders
    assert kraal.error("restart", "orders", "--task", "7").endswith("answered 404: Unknown task: orders-7")


def shown(connector: str, *tasks: str) -> dict[str, Any]:
    return {"connector": {"state": connector}, "tasks": [{"state": state} for state in tasks]}


@pytest.mark.parametrize(
    ("status", "wanted", "found"),
    [
        (None, "RUNNING", Verdict.PENDING),
        (shown("RUNNING", "RUNNING"), "RUNNING", Verdict.READY),
        (shown("RUNNING"), "RUNNING", Verdict.WITHOUT_TASKS),
        (shown("RUNNING", "RUNNING", "UNASSIGNED"), "RUNNING", Verdict.PENDING),
        (shown("RUNNING", "FAILED", "UNASSIGNED"), "RUNNING", Verdict.FAILED),
        (shown("FAILED"), "RUNNING", Verdict.FAILED),
        (shown("PAUSED", "RUNNING"), "PAUSED", Verdict.PENDING),
        (shown("STOPPED", "RUNNING"), "STOPPED", Verdict.PENDING),
        (shown("RUNNING", "FAILED"), "STOPPED", Verdict.PENDING),
        (shown("STOPPED"), "STOPPED", Verdict.READY),
    ],
)
def test_whether_a_wait_is_over(status: dict[str, Any] | None, wanted: str, found: Verdict) -> None:
    assert verdict(status, wanted) is found


# --- offsets ----------------------------------------------------------------------------------------------------


def test_offsets_of_a_source_and_of_a_sink(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", "/connectors/a/offsets", Said(200, OFFSETS))
    worker.script("GET", "/connectors/b/offsets", Said(200, SINK))
    worker.script("GET", "/connectors/c/offsets", Said(200, {"offsets": []}))
    assert (
        kraal.out("offsets", "get", "a")
        == 'PARTITION           OFFSET\n{"filename": "ä"}   {"position": 42}\n'
    )
    assert kraal.out("offsets", "get", "b") == (
        "TOPIC   PARTITION   OFFSET\nt       2           20\nt       10          100\n"
    )
    assert kraal("offsets", "get", "c").stderr == "No offsets.\n"


@pytest.mark.parametrize("style", ["json", "yaml"])
def test_what_is_shown_of_offsets_can_be_set(kraal: Kraal, worker: Connect, write: Files, style: str) -> None:
    worker.script("GET", "/connectors/a/offsets", Said(200, OFFSETS))
    worker.script("PATCH", "/connectors/a/offsets", Said(200, {"message": "done"}))
    path = write(f"offsets.{style}", kraal.out("offsets", "get", "a", "-o", style))
    assert kraal.out("offsets", "alter", "a", "-f", path) == "a: done\n"
    assert json.loads(worker.seen[-1].body) == OFFSETS


def test_offsets_on_the_command_line(kraal: Kraal, worker: Connect) -> None:
    worker.script("PATCH", "/connectors/a/offsets", Said(200, {"message": "done"}))
    kraal.out("offsets", "alter", "a", "--set", '{"f": 1}', '{"position": 0}', "--set", '{"f": 2}', "null")
    assert json.loads(worker.seen[-1].body) == {
        "offsets": [
            {"partition": {"f": 1}, "offset": {"position": 0}},
            {"partition": {"f": 2}, "offset": None},
        ]
    }


def test_offsets_are_reset(kraal: Kraal, worker: Connect) -> None:
    worker.script("DELETE", "/connectors/a/offsets", Said(200, {"message": "gone"}))
    assert kraal.out("offsets", "reset", "a") == "a: gone\n"


def test_a_connector_that_runs_is_an_error_that_says_what_to_do(kraal: Kraal, worker: Connect) -> None:
    text = "Connectors must be in the STOPPED state before their offsets can be modified."
    worker.refuse("DELETE", "/connectors/a/offsets", 400, text)
    assert kraal.error("offsets", "reset", "a") == (
        f"Error: a: {worker.url} answered 400: {text} (kraal stop a --wait)"
    )


def test_a_worker_without_offsets_says_so(kraal: Kraal, worker: Connect) -> None:
    worker.refuse("GET", "/connectors/a/offsets", 404, "HTTP 404 Not Found")
    assert "this worker has no offsets over REST" in kraal.error("offsets", "get", "a")


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
def test_offsets_that_mean_nothing(kraal: Kraal, worker: Connect, arguments: list[str], code: int) -> None:
    assert (kraal("offsets", *arguments).exit_code, worker.asked()) == (code, [])
