"""Tests that startup errors of workers have the format of the worker's log."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

CLI = (sys.executable, "-c", "from kraal.cli.main import main; main()")


@pytest.mark.one_a_day("command", "log_format")
@pytest.mark.parametrize(
    ("command", "log_format"), [("standalone", "text"), ("distributed", "json"), ("mirror", "json")]
)
def test_failed_startup_is_one_log_line(command: str, log_format: str, tmp_path: Path) -> None:
    missing_file = str(tmp_path / "missing.properties")
    result = subprocess.run(
        [*CLI, command, missing_file, "--log-format", log_format], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    [line] = result.stderr.splitlines()
    if log_format == "text":
        assert line.startswith("Error: ")
        assert missing_file in line
        return
    record = json.loads(line)
    assert (record["level"], record["logger"]) == ("ERROR", "kraal")
    assert record["message"].startswith("Failed to start: ")
    assert missing_file in record["message"]
    assert "hint" not in record  # the message already names the cause


@pytest.mark.one_a_day("log_format")
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_environment_failure_at_startup_refers_to_kraal_doctor(log_format: str, tmp_path: Path) -> None:
    file = tmp_path / "a worker.properties"
    with socket.create_server(("127.0.0.1", 0)) as occupied_socket:
        file.write_text(
            f"bootstrap.servers=127.0.0.1:1\nlisteners=http://127.0.0.1:{occupied_socket.getsockname()[1]}\n"
            "offset.storage.file.filename=offsets\n"
            "key.converter=StringConverter\nvalue.converter=StringConverter\n",
            encoding="utf-8",
        )
        result = subprocess.run(
            [*CLI, "standalone", str(file), "--log-format", log_format],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert result.returncode == 2
    hint = f"`kraal doctor {shlex.quote(str(file))}` checks the requirements of this worker."
    *_, last_line = result.stderr.splitlines()
    if log_format == "text":
        assert last_line == f"Hint: {hint}"
        return
    record = json.loads(last_line)
    assert record["hint"] == hint
    assert record["message"].startswith("Failed to start: ")
    assert "doctor" not in record["message"]
