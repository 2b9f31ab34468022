"""Runs a fuzzer against a worker and returns the findings, each with a command that reproduces it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.raw import RawRequest, find_faults, format_shell_command
from tests.fuzz.raw_requests import requests

ROOT: Final = Path(__file__).parents[2]
_SETTINGS: Final = Path(__file__).parent / "schemathesis.toml"
_EXIT_FINDINGS, _EXIT_OK = 1, 0
_ENDLESS_OPERATIONS: Final = ("streamChanges",)
"""Operations with endless responses."""
_MAX_FINDINGS: Final = 20
"""Number of findings after which no further requests are sent."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, with a shell command that reproduces it."""

    fault: str
    command: str


def from_schema(
    url: str, seed_: int, examples: int, *, skipped_operations: Sequence[str] = (), timeout_s: float = 600
) -> str:
    """Test a worker with schemathesis against its OpenAPI document; return the report, or "" if there are no findings.

    Args:
        url: URL of the worker, with a trailing slash.
        seed_: seed with which the run is reproducible.
        examples: number of examples per operation, and number of operation sequences.
        skipped_operations: names of operations to skip.
        timeout_s: time limit of the run.
    """
    exclusions = [
        part
        for name in (*_ENDLESS_OPERATIONS, *skipped_operations)
        for part in ("--exclude-operation-id", name)
    ]
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(_SETTINGS), "run"]
    command += [f"{url}openapi.json", "--seed", str(seed_), "--max-examples", str(examples), *exclusions]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as directory:  # schemathesis writes files to its working directory
        result = subprocess.run(
            command,
            cwd=directory,
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    if result.returncode not in (_EXIT_FINDINGS, _EXIT_OK) or "Tested:" not in result.stdout:
        raise RuntimeError(f"schemathesis exited with {result.returncode}:\n{result.stdout}")
    return result.stdout if result.returncode == _EXIT_FINDINGS else ""


def from_bytes(
    host: str,
    port: int,
    seed_: int,
    examples: int,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    changes_loggers: bool = True,
) -> list[Finding]:
    """Send malformed requests to a worker, and return each kind of fault in the responses once.

    The run ends early when `should_stop` returns True. Unless `changes_loggers` is set, log levels are not changed.
    """
    findings: dict[str, Finding] = {}

    @seed(seed_)
    @settings(
        max_examples=examples,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(requests)
    def check_request(request: RawRequest) -> None:
        if (
            should_stop()
            or len(findings) >= _MAX_FINDINGS
            or (request.target.startswith(b"/admin/") and not changes_loggers)
        ):
            return
        for fault in find_faults(host, port, request):
            if fault not in findings or (request.is_well_formed and "| nc " in findings[fault].command):
                findings[fault] = Finding(fault, format_shell_command(request, host, port))

    check_request()
    return list(findings.values())
