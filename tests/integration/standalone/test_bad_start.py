"""What is wrong at start ends the worker with a sentence and Connect's exit codes: 2 worker, 3 connector file."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kraal.testing.process import WorkerProcess

pytestmark = pytest.mark.ci

Make = Callable[..., WorkerProcess]

SOURCE = {"name": "s", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}


def ended(worker: WorkerProcess) -> tuple[int, str]:
    """Start a worker that ends by itself; return its exit code and what it printed."""
    worker.launch()
    code = worker.wait(240)
    assert worker.tree() == [], "nothing it started outlives it"
    text = worker.log_text()
    assert "Traceback" not in text
    return code, text


def with_hint(lines: str) -> tuple[str, bool]:
    """Return the lines of an error without the last one, and whether that leads to `kraal doctor`."""
    error, _, hint = lines.rstrip("\n").rpartition("\n")
    return error, hint.startswith("Hint: `kraal doctor ") and hint.endswith(
        "` checks what this worker needs."
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
def test_a_broken_connector_file_ends_the_worker_with_3(
    own_worker: Make, tmp_path: Path, content: str, reason: str
) -> None:
    file = tmp_path / "connector.json"
    file.write_text(content)
    code, text = ended(own_worker(connectors=(file,)))
    assert code == 3
    (sentence,) = (line for line in text.splitlines() if "Failed to create the connector of" in line)
    assert reason in text[text.index(sentence) :]
    assert str(file) in sentence


def test_a_connector_file_that_is_not_there_ends_the_worker_with_3(own_worker: Make, tmp_path: Path) -> None:
    code, text = ended(own_worker(connectors=(tmp_path / "none.json",)))
    assert code == 3
    assert f"'{tmp_path}/none.json': there is no such file." in text


def test_reports_all_errors_of_the_worker_properties_at_once(own_worker: Make) -> None:
    wrong = {
        "key.converter": "NoSuchConverter",
        "listeners": "https://127.0.0.1:0",
        "task.shutdown.graceful.timeout.ms": "soon",
        "topic.tracking.enable": "perhaps",
        "offset.storage.file.filename": "",
    }
    code, text = ended(own_worker(properties=wrong))
    assert code == 2
    assert [key for key in wrong if key not in text] == []


def test_a_config_provider_that_is_nowhere_ends_the_worker_with_2(own_worker: Make) -> None:
    code, text = ended(
        own_worker(properties={"config.providers": "x", "config.providers.x.class": "NoSuchProvider"})
    )
    assert code == 2
    last = text.splitlines()[-1]
    assert last.startswith("Error: Invalid value NoSuchProvider for configuration config.providers.x.class: ")


def test_worker_properties_that_are_not_there(own_worker: Make, tmp_path: Path) -> None:
    code, text = ended(own_worker(properties={"offset.storage.file.filename": str(tmp_path)}))
    assert code == 2
    error, leads_to_doctor = with_hint(text)
    assert error.splitlines()[-1].startswith(f"Error: cannot read the offset file {tmp_path}: ")
    assert leads_to_doctor


def test_a_taken_port_is_one_sentence_and_a_hint(own_worker: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = ended(own_worker(properties={"listeners": f"http://127.0.0.1:{port}"}))
    assert code == 2
    error, leads_to_doctor = with_hint(text)
    assert error == (
        f"Error: Cannot listen on 127.0.0.1:{port}: the port is in use. "
        "Stop the process that uses it, or change `listeners`."
    )
    assert leads_to_doctor


def test_a_second_worker_with_the_same_files_is_refused(worker: WorkerProcess, own_worker: Make) -> None:
    second = own_worker(properties={"offset.storage.file.filename": str(worker.offset_file)})
    code, text = ended(second)
    assert code == 2
    assert with_hint(text) == (
        f"Error: the log at {worker.offset_file}.kraal/config is in use by another worker",
        True,
    )
    assert worker.get("/health").status == 200
