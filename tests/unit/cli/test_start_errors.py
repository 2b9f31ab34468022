"""A worker that does not start says why, in the format of its log."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CLI = (sys.executable, "-c", "from kraal.cli.main import main; main()")


@pytest.mark.parametrize(
    ("command", "style"), [("standalone", "text"), ("distributed", "json"), ("mirror", "json")]
)
def test_a_start_that_fails_is_one_line_of_the_log(command: str, style: str, tmp_path: Path) -> None:
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
    found = json.loads(line)
    assert (found["level"], found["logger"]) == ("ERROR", "kraal")
    assert found["message"].startswith("Failed to start: ")
    assert missing in found["message"]
