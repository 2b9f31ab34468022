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

from tests.fuzz.raw import RawRequest, curl, find_faults
from tests.fuzz.raw_requests import requests

ROOT: Final = Path(__file__).parents[2]
_SETTINGS: Final = Path(__file__).parent / "schemathesis.toml"
_FOUND, _NOTHING = 1, 0
_ENDLESS: Final = ("streamChanges",)
"""Operations with endless responses."""
_MAX_FINDINGS: Final = 20
"""Maximum number of findings."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault, and how to reproduce it."""

    what: str
    again: str


def from_schema(
    url: str, seed_: int, examples: int, *, operations: Sequence[str] = (), timeout_s: float = 600
) -> str:
    """Test a worker with schemathesis against its OpenAPI document; return the report, empty without findings.

    Args:
        url: URL of the worker, with a trailing slash.
        seed_: makes the run reproducible.
        examples: number of examples per operation, and number of operation sequences.
        operations: names of operations to skip.
        timeout_s: time limit after which the run itself fails.
    """
    left_out = [part for name in (*_ENDLESS, *operations) for part in ("--exclude-operation-id", name)]
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(_SETTINGS), "run"]
    command += [f"{url}openapi.json", "--seed", str(seed_), "--max-examples", str(examples), *left_out]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as directory:  # schemathesis leaves files where it runs
        done = subprocess.run(
            command,
            cwd=directory,
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout_s,
        )
    if done.returncode not in (_FOUND, _NOTHING) or "Tested:" not in done.stdout:
        raise RuntimeError(f"schemathesis ended with {done.returncode}:\n{done.stdout}")
    return done.stdout if done.returncode == _FOUND else ""


def from_bytes(
    host: str,
    port: int,
    seed_: int,
    examples: int,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    loggers: bool = True,
) -> list[Finding]:
    """Send malformed requests to a worker; return the faults of its responses, each kind once.

    The run ends early when `should_stop` returns True. Without `loggers`, log levels are not changed.
    """
    found: dict[str, Finding] = {}

    @seed(seed_)
    @settings(
        max_examples=examples,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(requests)
    def ask(request: RawRequest) -> None:
        if (
            should_stop()
            or len(found) >= _MAX_FINDINGS
            or (request.target.startswith(b"/admin/") and not loggers)
        ):
            return
        for what in find_faults(host, port, request):
            if what not in found or (request.well_formed and "| nc " in found[what].again):
                found[what] = Finding(what, curl(request, host, port))

    ask()
    return list(found.values())
