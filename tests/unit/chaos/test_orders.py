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
from scripts.chaos_run.kinds.orders import Commands

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
def commands(tmp_path: Path) -> Commands:
    return Commands(tmp_path / "pipe-1")


def test_call_without_a_command_returns(commands: Commands) -> None:
    commands.execute()
    assert commands.list_hanging() == []


def test_hang_blocks_all_calls_until_release(commands: Commands) -> None:
    commands.hang()
    calls = [start_call(commands.execute) for _ in range(3)]
    wait_until(lambda: commands.list_hanging() == [os.getpid()] * 3)
    assert all(call.is_alive() for call in calls)
    commands.release()
    for call in calls:
        call.join(TIMEOUT_S)
    assert commands.list_hanging() == []


def test_hang_one_blocks_only_the_next_call(commands: Commands) -> None:
    commands.hang_one()
    first_call = start_call(commands.execute)
    wait_until(lambda: bool(commands.list_hanging()))
    commands.execute()
    assert first_call.is_alive()
    commands.release()
    first_call.join(TIMEOUT_S)
    assert not first_call.is_alive()


def test_commands_affect_only_their_target(commands: Commands) -> None:
    Commands(commands.prefix.with_name("pipe-10")).hang()
    commands.execute()
    assert Commands(commands.prefix.with_name("pipe-10")).list_hanging() == []


def test_exited_process_is_not_hanging(commands: Commands) -> None:
    commands.prefix.with_name(f"pipe-1.hanging.{2**22 + 1}.1").touch()
    assert commands.list_hanging() == []


def test_incomplete_sleep_command_is_ignored(commands: Commands) -> None:
    commands.prefix.with_name("pipe-1.sleep").touch()
    commands.execute()


def test_written_batches_are_recorded(commands: Commands) -> None:
    assert commands.list_written() == []
    commands.record_written({TopicPartition("t", 1): (3, 5), TopicPartition("t", 0): (0, 2)})
    commands.record_written({TopicPartition("t", 0): (2, 4)})
    assert commands.list_written() == ["t-0 0 2", "t-1 3 5", "t-0 2 4"]


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
