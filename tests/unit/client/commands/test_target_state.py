"""Tests for `kraal pause`, `resume` and `stop`."""

from __future__ import annotations

import pytest

from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Kraal


def test_target_states_are_set_and_awaited(kraal: Kraal, worker_with_orders: Connect) -> None:
    assert kraal.out("pause", "orders", "--wait") == "orders will pause\norders is PAUSED\n"
    assert kraal.out("stop", "orders", "--wait") == "orders will stop\norders is STOPPED\n"
    assert worker_with_orders.states("orders") == ["STOPPED"]
    assert kraal.out("resume", "--all", "--wait") == (
        "orders will run\nother will run\norders is RUNNING\nother is RUNNING\n"
    )
    assert worker_with_orders.states("orders") == ["RUNNING"] * 3


@pytest.mark.parametrize("command", ["pause", "resume", "stop", "restart"])
def test_either_names_or_all_is_required(kraal: Kraal, worker_with_orders: Connect, command: str) -> None:
    for arguments in ([], ["orders", "--all"]):
        result = kraal(command, *arguments)
        assert (result.exit_code, "Specify connector names or --all." in result.stderr) == (2, True)
    assert worker_with_orders.requests() == []


def test_unknown_connector_does_not_stop_other_connectors(kraal: Kraal, worker_with_orders: Connect) -> None:
    result = kraal("pause", "nobody", "orders")
    assert (result.exit_code, result.stdout) == (1, "orders will pause\n")
    assert result.stderr == (
        f"Error: nobody: {worker_with_orders.url} returned 404: Unknown connector nobody\n"
        "Hint: `kraal ls` lists the connectors of the worker.\n"
    )


def test_wait_times_out(kraal: Kraal, worker_with_orders: Connect) -> None:
    status = worker_with_orders.worker.status("orders")
    worker_with_orders.script("GET", "/connectors/orders/status", ScriptedResponse(200, status))
    result = kraal("pause", "orders", "--wait", "--timeout", "5")
    assert result.exit_code == 1
    assert kraal.clock.time == pytest.approx(5.0, abs=0.5)
    assert result.stderr == (
        "Error: orders is not PAUSED after 5 s: it is RUNNING, task 0 is RUNNING, task 1 is RUNNING\n"
        "Hint: `kraal status NAME --watch` shows changes; --timeout sets a longer timeout.\n"
    )
