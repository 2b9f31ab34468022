"""Tests for commands that are sent to plugins as files. Threads simulate the calls of a plugin."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path

import pytest

from kraal.plugins.api import TopicPartition
from scripts.chaos_run.kinds import plugins
from scripts.chaos_run.kinds.install import install
from scripts.chaos_run.kinds.orders import Orders

TIMEOUT_S = 10.0


def start_call(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


def wait_until(done: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(TIMEOUT_S * 100)):
        if done():
            return
        pause.wait(0.01)
    pytest.fail(f"the condition was not met within {TIMEOUT_S:g} s")


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path / "pipe-1")


def test_call_without_a_command_returns(orders: Orders) -> None:
    orders.execute()
    assert orders.list_hanging() == []


def test_hang_blocks_all_calls_until_release(orders: Orders) -> None:
    orders.hang()
    calls = [start_call(orders.execute) for _ in range(3)]
    wait_until(lambda: orders.list_hanging() == [os.getpid()] * 3)
    assert all(call.is_alive() for call in calls)
    orders.release()
    for call in calls:
        call.join(TIMEOUT_S)
    assert orders.list_hanging() == []


def test_hang_one_blocks_only_the_next_call(orders: Orders) -> None:
    orders.hang_one()
    first_call = start_call(orders.execute)
    wait_until(lambda: bool(orders.list_hanging()))
    orders.execute()
    assert first_call.is_alive()
    orders.release()
    first_call.join(TIMEOUT_S)
    assert not first_call.is_alive()


def test_commands_affect_only_their_target(orders: Orders) -> None:
    Orders(orders.prefix.with_name("pipe-10")).hang()
    orders.execute()
    assert Orders(orders.prefix.with_name("pipe-10")).list_hanging() == []


def test_exited_process_is_not_hanging(orders: Orders) -> None:
    orders.prefix.with_name(f"pipe-1.hanging.{2**22 + 1}.1").touch()
    assert orders.list_hanging() == []


def test_incomplete_sleep_command_is_ignored(orders: Orders) -> None:
    orders.prefix.with_name("pipe-1.sleep").touch()
    orders.execute()


def test_written_batches_are_recorded(orders: Orders) -> None:
    assert orders.list_written() == []
    orders.record_written({TopicPartition("t", 1): (3, 5), TopicPartition("t", 0): (0, 2)})
    orders.record_written({TopicPartition("t", 0): (2, 4)})
    assert orders.list_written() == ["t-0 0 2", "t-1 3 5", "t-0 2 4"]


def test_install_registers_the_plugins_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "before")
    install(tmp_path)
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), "before"]
    [distribution] = distributions(path=[str(tmp_path)])
    loaded_classes = {
        entry.load() for entry in distribution.entry_points if entry.group == "kraal.connectors"
    }
    assert loaded_classes == {
        plugins.HangingFileSinkConnector,
        plugins.HangingFilesSinkConnector,
        plugins.HangingSourceConnector,
    }
