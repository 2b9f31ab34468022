"""Startup errors of workers, in the format of their log."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

CLI = (sys.executable, "-c", "from kraal.cli.main import main; main()")


@pytest.mark.one_a_day("command", "style")
@pytest.mark.parametrize(
    ("command", "style"), [("standalone", "text"), ("distributed", "json"), ("mirror", "json")]
)
def test_failed_startup_is_one_log_line(command: str, style: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.properties")
    done = subprocess.run(
        [*CLI, command, missing, "--log-format", style], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    if style == "text":
        assert line.startswith("Error: ")
        assert missing in line
        return
    record = json.loads(line)
    assert (record["level"], record["logger"]) == ("ERROR", "kraal")
    assert record["message"].startswith("Failed to start: ")
    assert missing in record["message"]
    assert "hint" not in record  # the message already names the cause


@pytest.mark.one_a_day("style")
@pytest.mark.parametrize("style", ["text", "json"])
def test_environment_failure_at_startup_refers_to_kraal_doctor(style: str, tmp_path: Path) -> None:
    file = tmp_path / "a worker.properties"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file.write_text(
            f"bootstrap.servers=127.0.0.1:1\nlisteners=http://127.0.0.1:{taken.getsockname()[1]}\n"
            "offset.storage.file.filename=offsets\n"
            "key.converter=StringConverter\nvalue.converter=StringConverter\n",
            encoding="utf-8",
        )
        done = subprocess.run(
            [*CLI, "standalone", str(file), "--log-format", style],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
    assert done.returncode == 2
    hint = f"`kraal doctor {shlex.quote(str(file))}` checks what this worker needs."
    *_, last = done.stderr.splitlines()
    if style == "text":
        assert last == f"Hint: {hint}"
        return
    record = json.loads(last)
    assert record["hint"] == hint
    assert record["message"].startswith("Failed to start: ")
    assert "doctor" not in record["message"]
