"""Runs one fuzzer against one worker and returns what it found, each with the line that repeats it."""

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

from tests.fuzz.raw import RawRequest, curl, faults_of
from tests.fuzz.raw_requests import requests

ROOT: Final = Path(__file__).parents[2]
_SETTINGS: Final = Path(__file__).parent / "schemathesis.toml"
_FOUND, _NOTHING = 1, 0
_ENDLESS: Final = ("streamChanges",)
"""Operations whose answers do not end."""
_MOST: Final = 20
"""More findings than this say nothing new."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and how to see it again."""

    what: str
    again: str


def from_schema(
    url: str, seed_: int, examples: int, *, operations: Sequence[str] = (), timeout_s: float = 600
) -> str:
    """Have schemathesis ask a worker by its own document; return its report, or nothing when nothing was found.

    Args:
        url: the worker's, with a slash at its end.
        seed_: repeats a run.
        examples: a number for each operation, and a number of chains of operations.
        operations: names that are left out.
        timeout_s: after it the run itself is what is wrong.
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
    enough: Callable[[], bool] = lambda: False,
    loggers: bool = True,
) -> list[Finding]:
    """Send a worker requests that no client sends; return what is wrong with its answers, each kind once.

    `enough` is asked before each request: True ends it early. Without `loggers` levels stay as they are.
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
        if enough() or len(found) >= _MOST or (request.target.startswith(b"/admin/") and not loggers):
            return
        for what in faults_of(host, port, request):
            if what not in found or (request.well_formed and "| nc " in found[what].again):
                found[what] = Finding(what, curl(request, host, port))

    ask()
    return list(found.values())
