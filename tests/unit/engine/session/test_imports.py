"""Tests that no import is incomplete if Spark is imported while a plugin that imports Spark is loaded."""

import subprocess
import sys
from pathlib import Path

PLUGIN = """
from pyspark.sql import functions
from kraal.plugins.api import Converter

class Own(Converter):
    pass
"""
CODE = """
import sys
import threading
from importlib import import_module
from kraal.plugins.entries import CONVERTERS_GROUP, Entry
from kraal.plugins.importing import import_spark

sys.path.insert(0, sys.argv[1])
entry = Entry("Own", CONVERTERS_GROUP, lambda: import_module("plugin").Own)
failed = []

def load():
    while "pyspark" not in sys.modules:
        pass
    entry.loaded

def run(function):
    try:
        function()
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=run, args=(each,)) for each in (load, import_spark)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(failed)
"""


def test_imports_of_spark_and_plugins_are_serialized(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    command = [sys.executable, "-c", CODE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "[]"
