"""Tests that the examples of docs/testing.md run as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
CODE_BLOCKS = re.findall(
    r'```python\n("""(\w+)\.py""".*?)```',
    (ROOT / "docs" / "testing.md").read_text(encoding="utf-8"),
    re.DOTALL,
)
EXAMPLES = [(text, name) for text, name in CODE_BLOCKS if "Process" in text or "SparkEngine" in text]
"""Examples that start a worker process or Spark. `tests/unit/test_docs.py` runs the other examples."""


@pytest.mark.parametrize(("text", "name"), EXAMPLES, ids=[name for _, name in EXAMPLES])
def test_example_runs(text: str, name: str, tmp_path: Path, bootstrap: str) -> None:
    """Examples run in separate processes, because PySpark has one session per process."""
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = ignore\n", encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "KRAAL_TESTING_BOOTSTRAP": bootstrap},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert re.search(rf"^{text.count('def test_')} passed", result.stdout, re.MULTILINE), result.stdout
