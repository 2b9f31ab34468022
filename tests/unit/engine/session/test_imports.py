"""Tests that Spark can be imported while another thread loads a plugin that imports Spark."""

import subprocess
import sys
from pathlib import Path

PLUGIN = """
from pyspark.sql import functions
from kraal.plugins.api import Converter

class CustomConverter(Converter):
    pass
"""
CODE = """
import sys
import threading
from importlib import import_module
from kraal.plugins.entries import CONVERTERS_GROUP, Entry
from kraal.plugins.importing import import_spark

sys.path.insert(0, sys.argv[1])
entry = Entry("CustomConverter", CONVERTERS_GROUP, lambda: import_module("plugin").CustomConverter)
errors = []

def load():
    while "pyspark" not in sys.modules:
        pass
    entry.plugin_class

def run(function):
    try:
        function()
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=run, args=(function,)) for function in (load, import_spark)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(errors)
"""


def test_imports_of_spark_and_plugins_are_serialized(tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    command = [sys.executable, "-c", CODE, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "[]"
