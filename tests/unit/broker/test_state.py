from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from kraal.broker import state
from kraal.broker.broker import Broker, free_port
from kraal.broker.state import Record
from kraal.cli.main import main
from kraal.jars.errors import BrokerError


@pytest.fixture
def child_process(tmp_path: Path) -> Iterator[psutil.Process]:
    """Yield a process whose command line contains the path of the broker's properties file."""
    command = [sys.executable, "-c", "print(flush=True); input()", str(tmp_path / "server.properties")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()  # wait for exec, before which a process may have no command line
        yield psutil.Process(child.pid)
        child.kill()


def make_record(process: psutil.Process, *, start_shift_s: float = 0.0) -> Record:
    return Record(pid=process.pid, started=process.create_time() + start_shift_s, port=1)


def test_record_round_trips(tmp_path: Path) -> None:
    record = Record(pid=7, started=1.25, port=9092)
    record.write(tmp_path)
    assert state.read(tmp_path) == record
    state.delete(tmp_path)
    assert state.read(tmp_path) is None


def test_process_is_recognized_during_exec(
    tmp_path: Path, child_process: psutil.Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil.Process, "cmdline", lambda _: [])
    assert make_record(child_process).process(tmp_path) is not None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x", "started": 1, "port": 2}'])
def test_unreadable_record_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / state.NAME).write_text(text, encoding="ascii")
    with pytest.raises(BrokerError, match="the broker process is unknown"):
        Broker(tmp_path, free_port()).stop()


def test_recorded_process_is_found(tmp_path: Path, child_process: psutil.Process) -> None:
    process = make_record(child_process).process(tmp_path)
    assert process is not None
    assert process.pid == child_process.pid


def test_reused_pid_is_not_the_broker(tmp_path: Path, child_process: psutil.Process) -> None:
    make_record(child_process, start_shift_s=-60).write(tmp_path)
    assert Broker(tmp_path, free_port()).stop() is False
    assert child_process.is_running()
    assert state.read(tmp_path) is None


def test_process_with_other_command_line_is_not_the_broker(
    tmp_path: Path, child_process: psutil.Process
) -> None:
    assert make_record(child_process).process(tmp_path / "elsewhere") is None


def test_exited_process_is_not_found(tmp_path: Path, child_process: psutil.Process) -> None:
    record = make_record(child_process)
    child_process.kill()
    child_process.wait(10)
    assert record.process(tmp_path) is None


def test_stop_terminates_recorded_process(tmp_path: Path, child_process: psutil.Process) -> None:
    make_record(child_process).write(tmp_path)
    assert Broker(tmp_path, free_port()).stop() is True
    assert not child_process.is_running() or child_process.status() == psutil.STATUS_ZOMBIE


def test_status_fails_if_broker_is_not_running(tmp_path: Path) -> None:
    options = ["--data-dir", str(tmp_path / "none"), "--port", str(free_port())]
    stop_result = CliRunner().invoke(main, ["kafka", "stop", *options])
    assert (stop_result.exit_code, stop_result.output.startswith("No broker was running")) == (0, True)
    status = CliRunner().invoke(main, ["kafka", "status", *options])
    assert (status.exit_code, status.stderr.startswith("Error: No broker is running")) == (1, True)
