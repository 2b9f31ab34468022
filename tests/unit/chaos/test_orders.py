"""Orders that are files: what a plugin does with them, in threads that stand for calls."""

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


def begun(what: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=what, daemon=True)
    thread.start()
    return thread


def wait_until(done: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(TIMEOUT_S * 100)):
        if done():
            return
        pause.wait(0.01)
    pytest.fail("it took too long")


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path / "pipe-1")


def test_without_an_order_a_call_passes(orders: Orders) -> None:
    orders.obey()
    assert orders.hanging() == []


def test_all_calls_hang_until_they_are_released(orders: Orders) -> None:
    orders.hang()
    calls = [begun(orders.obey) for _ in range(3)]
    wait_until(lambda: orders.hanging() == [os.getpid()] * 3)
    assert all(call.is_alive() for call in calls)
    orders.release()
    for call in calls:
        call.join(TIMEOUT_S)
    assert orders.hanging() == []


def test_one_call_hangs_and_the_next_one_does_not(orders: Orders) -> None:
    orders.hang_one()
    first = begun(orders.obey)
    wait_until(lambda: bool(orders.hanging()))
    orders.obey()
    assert first.is_alive()
    orders.release()
    first.join(TIMEOUT_S)
    assert not first.is_alive()


def test_calls_of_one_place_do_not_hang_for_another(orders: Orders) -> None:
    Orders(orders.prefix.with_name("pipe-10")).hang()
    orders.obey()
    assert Orders(orders.prefix.with_name("pipe-10")).hanging() == []


def test_a_process_that_has_ended_hangs_no_more(orders: Orders) -> None:
    orders.prefix.with_name(f"pipe-1.hanging.{2**22 + 1}.1").touch()
    assert orders.hanging() == []


def test_ignores_an_incomplete_order_to_sleep(orders: Orders) -> None:
    orders.prefix.with_name("pipe-1.sleep").touch()
    orders.obey()


def test_batches_that_were_written_are_noted(orders: Orders) -> None:
    assert orders.written() == []
    orders.wrote({TopicPartition("t", 1): (3, 5), TopicPartition("t", 0): (0, 2)})
    orders.wrote({TopicPartition("t", 0): (2, 4)})
    assert orders.written() == ["t-0 0 2", "t-1 3 5", "t-0 2 4"]


def test_workers_find_the_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "before")
    install(tmp_path)
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(tmp_path), "before"]
    [distribution] = distributions(path=[str(tmp_path)])
    loaded = {entry.load() for entry in distribution.entry_points if entry.group == "kraal.connectors"}
    assert loaded == {
        plugins.HangingFileSinkConnector,
        plugins.HangingFilesSinkConnector,
        plugins.HangingSourceConnector,
    }
