"""Tests for `kraal restart`."""

from __future__ import annotations

import pytest

from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect
from tests.unit.client.conftest import Kraal


@pytest.mark.parametrize(
    ("options", "path", "message"),
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
def test_restart_options_match_kip_745(
    kraal: Kraal, worker_with_orders: Connect, options: list[str], path: str, message: str
) -> None:
    worker_with_orders.fail("orders", 1, "no")
    assert kraal.out("restart", "orders", *options) == f"{message}\n"
    assert worker_with_orders.requests() == [f"POST /connectors/orders/{path}"]


def test_restart_with_wait_returns_when_the_instances_run(kraal: Kraal, worker_with_orders: Connect) -> None:
    worker_with_orders.fail("other", 0, "no")
    assert kraal.out("restart", "--all", "--tasks", "--only-failed", "--wait") == (
        "orders: nothing to restart\nother restarting: task 0\norders is RUNNING\nother is RUNNING\n"
    )
    assert kraal.clock.time >= 2  # an outdated RUNNING may be reported briefly


def test_repeated_failure_of_an_instance_is_an_error(kraal: Kraal, worker: Connect) -> None:
    worker.create("bad", {"connector.class": FAKE_SOURCE, "fail.in": "start"})
    result = kraal("restart", "bad", "--tasks", "--wait")
    assert (result.exit_code, "Error: bad failed: it is FAILED" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments", [["a", "b", "--task", "0"], ["a", "--task", "0", "--tasks"], ["a", "--task", "-1"]]
)
def test_invalid_restart_options_are_a_usage_error(kraal: Kraal, arguments: list[str]) -> None:
    assert kraal("restart", *arguments).exit_code == 2


def test_unknown_task_is_an_error(kraal: Kraal, worker_with_orders: Connect) -> None:
    del worker_with_orders
    assert kraal.error("restart", "orders", "--task", "7").endswith("returned 404: Unknown task: orders-7")
