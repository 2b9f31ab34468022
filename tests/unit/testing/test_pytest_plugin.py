"""Tests for the pytest plugin of `kraal.testing` in test suites of users."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_pytest_plugin_imports_kraal_lazily(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n"
        "def test_other():\n"
        "    names = [n for n in sys.modules if n.split('.')[0] in ('kraal', 'actors', 'pyspark', 'pyarrow')]\n"
        "    assert sorted(names) == ['kraal', 'kraal.testing', 'kraal.testing.pytest_plugin']\n"
    )
    assert _pytest(tmp_path).startswith("1 passed")


def test_fixtures_create_and_close_clusters(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from kraal.testing import FAKE_SOURCE\n"
        "def test_mine(kraal_cluster, kraal_seed):\n"
        "    assert kraal_seed == 7\n"
        "    c = kraal_cluster(workers=2)\n"
        "    assert c.seed == 7 and c.alive == [0, 1]\n"
        "    global cluster\n"
        "    cluster = c\n"
        "def test_later():\n"
        "    assert cluster.alive == []\n"
    )
    assert _pytest(tmp_path, "--kraal-seed=7").startswith("2 passed")


def _pytest(directory: Path, *options: str) -> str:
    """Run pytest with only this plugin, and return the last line of its output, or the whole output if it fails."""
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "kraal.testing.pytest_plugin", *options, str(directory)],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return (
        (result.stdout.strip().splitlines() or [result.stderr])[-1]
        if result.returncode == 0
        else result.stdout
    )
