"""Tests that startup errors exit with a message and Connect's exit codes: 2 for the worker, 3 for a connector file."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kraal.testing.process import WorkerProcess

pytestmark = pytest.mark.ci

MakeWorker = Callable[..., WorkerProcess]

SOURCE = {"name": "s", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}


def run_to_exit(worker: WorkerProcess) -> tuple[int, str]:
    """Start a worker that must exit by itself, and return its exit code and output."""
    worker.launch()
    code = worker.wait(240)
    assert worker.tree() == [], "the worker left processes behind"
    text = worker.log_text()
    assert "Traceback" not in text
    return code, text


def split_hint(lines: str) -> tuple[str, bool]:
    """Return an error without its last line, and whether the last line refers to `kraal doctor`."""
    error, _, hint = lines.rstrip("\n").rpartition("\n")
    return error, hint.startswith("Hint: `kraal doctor ") and hint.endswith(
        "` checks the requirements of this worker."
    )


@pytest.mark.one_a_day("content", "reason")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param("{", "is missing the mandatory 'name' configuration", id="half of a JSON object"),
        pytest.param('{"name": "s"}', "no connector type", id="no class"),
        pytest.param(json.dumps({**SOURCE, "connector.class": "NoSuch"}), "NoSuch", id="unknown class"),
        pytest.param(json.dumps({**SOURCE, "topic": ""}), "topic", id="bad value"),
        pytest.param(
            json.dumps({"name": "s", "config": SOURCE, "initial_state": "LAZY"}), "LAZY", id="unknown state"
        ),
    ],
)
def test_invalid_connector_file_exits_with_3(
    make_worker: MakeWorker, tmp_path: Path, content: str, reason: str
) -> None:
    file = tmp_path / "connector.json"
    file.write_text(content)
    code, text = run_to_exit(make_worker(connectors=(file,)))
    assert code == 3
    (error,) = (line for line in text.splitlines() if "Failed to create connector for" in line)
    assert reason in text[text.index(error) :]
    assert str(file) in error


def test_missing_connector_file_exits_with_3(make_worker: MakeWorker, tmp_path: Path) -> None:
    code, text = run_to_exit(make_worker(connectors=(tmp_path / "none.json",)))
    assert code == 3
    assert f"'{tmp_path}/none.json': there is no such file." in text


def test_all_errors_in_worker_properties_are_reported(make_worker: MakeWorker) -> None:
    invalid_properties = {
        "key.converter": "NoSuchConverter",
        "listeners": "https://127.0.0.1:0",
        "task.shutdown.graceful.timeout.ms": "soon",
        "topic.tracking.enable": "perhaps",
        "offset.storage.file.filename": "",
    }
    code, text = run_to_exit(make_worker(properties=invalid_properties))
    assert code == 2
    assert [key for key in invalid_properties if key not in text] == []


def test_unknown_config_provider_exits_with_2(make_worker: MakeWorker) -> None:
    code, text = run_to_exit(
        make_worker(properties={"config.providers": "x", "config.providers.x.class": "NoSuchProvider"})
    )
    assert code == 2
    last_line = text.splitlines()[-1]
    assert last_line.startswith(
        "Error: Invalid value NoSuchProvider for configuration config.providers.x.class: "
    )


def test_unreadable_offset_file_exits_with_2(make_worker: MakeWorker, tmp_path: Path) -> None:
    code, text = run_to_exit(make_worker(properties={"offset.storage.file.filename": str(tmp_path)}))
    assert code == 2
    error, has_doctor_hint = split_hint(text)
    assert error.splitlines()[-1].startswith(f"Error: cannot read the offset file {tmp_path}: ")
    assert has_doctor_hint


def test_port_in_use_is_reported_with_hint(make_worker: MakeWorker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, text = run_to_exit(make_worker(properties={"listeners": f"http://127.0.0.1:{port}"}))
    assert code == 2
    error, has_doctor_hint = split_hint(text)
    assert error == (
        f"Error: Cannot listen on 127.0.0.1:{port}: the port is in use. "
        "Stop the process that uses it, or change `listeners`."
    )
    assert has_doctor_hint


def test_second_worker_with_same_files_fails(worker: WorkerProcess, make_worker: MakeWorker) -> None:
    second_worker = make_worker(properties={"offset.storage.file.filename": str(worker.offset_file)})
    code, text = run_to_exit(second_worker)
    assert code == 2
    assert split_hint(text) == (
        f"Error: the log at {worker.offset_file}.kraal/config is in use by another worker",
        True,
    )
    assert worker.get("/health").status == 200
