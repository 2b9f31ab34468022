"""Tests that `scripts/chaos` passes for two minutes with one seed; longer runs are manual (docs/reliability.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.ci

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1200.0
FIRST_FAULTS = ["kill-lane", "kill-full-jvm", "move-back", "overlap-frozen", "suspend"]
"""Faults that the run must include. The seed selects the others."""


def test_cluster_keeps_its_guarantees_during_faults(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.chaos_run", "--minutes", "2", "--seed", "8"]
    command += ["--workers", "2", "--directory", str(tmp_path / "chaos")]
    command += [part for kind in FIRST_FAULTS for part in ("--first", kind)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    print(result.stdout)  # noqa: T201 - the timeline, for diagnosis
    assert result.returncode == 0, f"{result.stdout[-20_000:]}\n{result.stderr[-5_000:]}"
