"""Tests for `kraal status --watch`: line output and the live screen."""

from __future__ import annotations

import json
import re

import pytest

from kraal.client.status_tables import Statuses
from kraal.client.terminal.screen import Screen
from kraal.client.watch import Watch, frame
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect, QuickClock, ScriptedResponse
from tests.unit.client.conftest import Kraal

TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S+ ", re.MULTILINE)


@pytest.fixture
def worker_with_orders(worker: Connect) -> Connect:
    worker.create("orders", {"connector.class": FAKE_SOURCE})
    return worker


def test_changes_are_printed_as_lines_to_a_pipe(kraal: Kraal, worker_with_orders: Connect) -> None:
    kraal.clock.meanwhile = [
        lambda: worker_with_orders.fail("orders", 0, "java.io.IOException: full\n\tat x"),
        lambda: None,
        lambda: worker_with_orders.script("GET", "/connectors", ScriptedResponse(200, [])),
        KeyboardInterrupt(),
    ]
    result = kraal("status", "--watch", "--interval", "3")
    assert (result.exit_code, result.stderr.strip()) == (0, "")
    assert TIMESTAMP.sub("", result.stdout) == (
        "orders RUNNING 127.0.0.1:8083\n"
        "orders task 0 RUNNING 127.0.0.1:8083\n"
        "orders task 0 RUNNING -> FAILED 127.0.0.1:8083 java.io.IOException: full\n"
        "orders RUNNING -> gone\n"
        "orders task 0 FAILED -> gone\n"
    )
    assert len(TIMESTAMP.findall(result.stdout)) == 5
    assert kraal.clock.time == 12.0


def test_changes_are_printed_as_json_lines(kraal: Kraal, worker_with_orders: Connect) -> None:
    kraal.clock.meanwhile = [lambda: worker_with_orders.fail("orders", 0, "full"), KeyboardInterrupt()]
    lines = [json.loads(line) for line in kraal("status", "orders", "-w", "-o", "json").stdout.splitlines()]
    assert [(change["task"], change["after"]["state"]) for change in lines] == [
        ("-", "RUNNING"),
        ("0", "RUNNING"),
        ("0", "FAILED"),
    ]
    assert lines[2]["before"] == {"state": "RUNNING", "worker": "127.0.0.1:8083", "trace": ""}


def test_watch_continues_while_the_worker_is_unreachable(kraal: Kraal, worker_with_orders: Connect) -> None:
    kraal.clock.meanwhile = [
        lambda: worker_with_orders.refuse("GET", "/connectors", 503, "Worker is still starting up."),
        lambda: None,
        lambda: worker_with_orders.script("GET", "/connectors", ScriptedResponse(200, ["orders"])),
        KeyboardInterrupt(),
    ]
    result = kraal("status", "-w")
    lines = [TIMESTAMP.sub("", line) for line in result.stderr.splitlines() if line]
    assert lines == [
        f"{worker_with_orders.url} returned 503: Worker is still starting up.",
        "the worker responds again",
    ]
    assert result.stdout.count("\n") == 2


def test_watch_fails_if_the_first_poll_fails(kraal: Kraal) -> None:
    assert "Cannot connect to" in kraal.error("status", "-w", "--url", "http://127.0.0.1:1")


def test_watch_rejects_yaml_output(kraal: Kraal) -> None:
    assert kraal("status", "-w", "-o", "yaml").exit_code == 2


def statuses(*names: str) -> Statuses:
    return {name: {"connector": {"state": "RUNNING", "worker_id": "w:1"}, "tasks": []} for name in names}


def test_frame_fits_the_screen() -> None:
    lines = frame("t" * 99, statuses(*"abcdefgh"), "", columns=20, lines=8)
    assert len(lines) == 7
    assert lines[:3] == ["t" * 19 + "…", "", "NAME   TASK   STATE…"]
    assert lines[-1] == "… 5 more lines; spe…"
    assert len(frame("t", statuses("a"), "problem", columns=80, lines=24)) == 5
    assert frame("t", {}, "", columns=80, lines=24)[-1] == "No connectors."


def test_screen_is_updated_in_place(clock: QuickClock) -> None:
    screens: list[str] = []
    clock.meanwhile = [lambda: None, KeyboardInterrupt()]
    polls = iter([statuses("a", "b"), statuses("a")])
    watch = Watch(lambda: next(polls), clock.pause, 1.0)
    with pytest.raises(KeyboardInterrupt):
        watch.on_screen(Screen(screens.append, lambda: (80, 24)), "http://w")
    assert len(screens) == 3
    assert screens[0] == "\x1b[2J"
    for screen in screens[1:]:
        assert screen.startswith("\x1b[H")
        assert screen.endswith("\x1b[J")
    assert "\nb      -      \x1b[32mRUNNING\x1b[0m   w:1" in screens[1].replace("\x1b[K", "")
    assert "\nb " not in screens[2]
