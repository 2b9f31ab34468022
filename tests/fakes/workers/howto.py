"""Executes the instructions of docs/plugin-howto.md in a directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/plugin-howto.md").read_text(encoding="utf-8")
_KRAAL = """#!/bin/sh
exec {python} -c 'from kraal.cli.main import main; main(prog_name="kraal")' "$@"
"""
_PYTHON = """#!/bin/sh
case "$*" in "-m pip wheel "*) exec {python} "$@" --no-build-isolation --no-index;; esac
exec {python} "$@"
"""


def blocks(language: str) -> list[str]:
    """Return the page's code blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def properties() -> Mapping[str, str]:
    """Return the page's worker.properties."""
    [text] = blocks("properties")
    return dict(line.split("=", 1) for line in text.splitlines())


def follow(directory: Path) -> Path:
    """Execute the page's commands up to the start of a worker; return the project's directory.

    Wheels are built with the installed packages, without access to a package index.
    """
    bin_directory = directory / "bin"
    bin_directory.mkdir()
    for name, text in (("kraal", _KRAAL), ("python", _PYTHON)):
        (bin_directory / name).write_text(text.format(python=sys.executable), encoding="utf-8")
        (bin_directory / name).chmod(0o755)
    search_path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "PATH": os.pathsep.join([str(bin_directory), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(search_path),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PIP_NO_INDEX": "1",
    }
    project = directory
    for language, text in re.findall(r"```(bash|python|json)\n(.*?)```", PAGE, re.DOTALL):
        if language == "bash":
            result = subprocess.run(
                ["bash", "-e", "-c", text],  # noqa: S607 - any bash
                cwd=project,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == 0, f"{text}\n{result.stdout}{result.stderr}"
            project = directory / "disk-space"
        else:
            name = text.split('"""')[1] if language == "python" else "connector.json"
            assert (project / name).exists(), f"a new project does not contain {name}"
            (project / name).write_text(text, encoding="utf-8")
    return project
