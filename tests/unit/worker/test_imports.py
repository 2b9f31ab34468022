"""What a worker does not import before REST answers, because it takes long."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

START = """
import pathlib, sys
import kraal.worker.standalone
from kraal.plugins.registry import Registry
from kraal.worker.spark import spark_engine
spark_engine({{}}, Registry.load(), (), pathlib.Path({scratch!r}), at_once=False)
print(*{{"kafka", "py4j", "pyspark.sql"}} & {{*sys.modules}})
"""


def test_a_standalone_worker_imports_packages_that_it_needs_later_when_it_needs_them(tmp_path: Path) -> None:
    code = START.format(scratch=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
