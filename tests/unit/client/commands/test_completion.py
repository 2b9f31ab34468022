"""Tests for `kraal completion` and for command-line completion."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete, get_completion_class
from click.testing import CliRunner

from kraal.cli.main import main
from kraal.client.commands.completion import SHELLS
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Kraal

ROOT = Path(__file__).parents[4]


def complete(*words: str, url: str) -> list[str]:
    """Return the completions that bash would show for the last word."""
    env = {"KRAAL_URL": url, "_KRAAL_COMPLETE": "bash_complete"}
    env |= {"COMP_WORDS": " ".join(["kraal", *words]), "COMP_CWORD": str(len(words))}
    result = CliRunner().invoke(main, prog_name="kraal", env=env)
    assert (result.exit_code, result.stderr) == (0, "")
    return [line.partition(",")[2] for line in result.stdout.splitlines() if line]


@pytest.fixture
def populated_worker(worker: Connect) -> Connect:
    for name in ("orders-source", "orders-sink", "other"):
        worker.create(name, {"connector.class": FAKE_SOURCE})
    return worker


@pytest.mark.parametrize(
    ("words", "completion"),
    [
        (["status", "ord"], ["orders-sink", "orders-source"]),
        (["pause", "orders-sink", "o"], ["orders-source", "other"]),
        (["offsets", "get", "ot"], ["other"]),
        (["offsets", "a"], ["alter"]),
        (["ls", "--o"], ["--output"]),
        (["ls", "-o", "j"], ["json"]),
        (["plugins", "kraal.testing.FakeSo"], [FAKE_SOURCE]),
        (["loggers", "ro"], ["root"]),
        (["loggers", "root", "de"], ["DEBUG"]),
        (["completion", "f"], ["fish"]),
        (["desc"], ["describe"]),
    ],
)
def test_words_are_completed_from_the_worker(
    populated_worker: Connect, words: list[str], completion: list[str]
) -> None:
    populated_worker.script("GET", "/admin/loggers", ScriptedResponse(200, {"root": {}, "org": {}}))
    assert complete(*words, url=populated_worker.url) == completion


def test_completion_uses_the_url_on_the_command_line(populated_worker: Connect) -> None:
    assert complete("status", "--url", populated_worker.url, "ot", url="http://127.0.0.1:1") == ["other"]


@pytest.mark.parametrize(
    "response",
    [
        ScriptedResponse(500, {"error_code": 500, "message": "no"}),
        ScriptedResponse(200, "<html>"),
        ScriptedResponse(200, {"a": 1}),
        ScriptedResponse(200, 7),
    ],
)
def test_completion_errors_print_nothing(worker: Connect, response: ScriptedResponse) -> None:
    worker.script("GET", "/connectors", response)
    assert complete("status", "x", url=worker.url) == []
    assert complete("status", "x", url="ftp://nonsense") == []
    assert complete("status", "x", url="http://127.0.0.1:1") == []


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(kraal: Kraal, shell: str) -> None:
    completion = get_completion_class(shell)
    assert completion is not None
    assert issubclass(completion, ShellComplete)
    text = CliRunner().invoke(main, ["completion", shell], prog_name="kraal").stdout
    assert f"_KRAAL_COMPLETE={shell}_complete" in text
    assert kraal("completion", "tcsh").exit_code == 2


def test_bash_script_completes_connector_names(populated_worker: Connect, tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    command = tmp_path / "kraal"
    command.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c \'from kraal.cli.main import main; main(prog_name="kraal")\' "$@"\n'
    )
    command.chmod(0o755)
    script = (
        'eval "$(kraal completion bash)"; COMP_WORDS=(kraal status ot); COMP_CWORD=2; '
        "$(complete -p kraal | sed 's/.*-F \\([^ ]*\\) .*/\\1/') kraal; echo \"${COMPREPLY[@]}\""
    )
    env = os.environ | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KRAAL_URL": populated_worker.url,
    }
    result = subprocess.run(
        [bash, "--norc", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.stdout, result.stderr) == ("other\n", "")
