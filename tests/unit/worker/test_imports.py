"""Tests that a worker defers slow imports until the REST server has started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

START = """
import os, sys
from kraal.cli.main import main
from kraal.worker import process

def start(*args, **kwargs):
    print(*{"jinja2", "kafka", "numpy", "py4j", "pyarrow", "pyspark.sql"} & {*sys.modules}, "REST", flush=True)
    os._exit(0)

engine = process.spark_engine
process.spark_engine = lambda *args, at_once: engine(*args, at_once=False)
process.HttpServer.start = start
main()
"""


def test_standalone_worker_imports_packages_lazily(tmp_path: Path) -> None:
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "kraal.data.dir": str(tmp_path / "data"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
    command = [sys.executable, "-c", START, "standalone", str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["REST"]
