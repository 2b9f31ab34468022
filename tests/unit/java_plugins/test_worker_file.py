"""Tests for the file from which Java plugins read the worker's properties."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest

from kraal.java_plugins.worker_file import WorkerFile

PROPERTIES = {"bootstrap.servers": "b:9092", "sasl.jaas.config": 'x password="a=b\\c #ü😀";', " k ": " v\n"}


@pytest.mark.parametrize(
    ("is_standalone", "expected_class"), [(False, "ConnectDistributed"), (True, "ConnectStandalone")]
)
def test_command_names_the_class_and_a_file_with_the_properties(
    *, is_standalone: bool, expected_class: str
) -> None:
    file = WorkerFile(PROPERTIES, standalone=is_standalone)
    class_name, path = file.command.split(" ")
    assert class_name == f"org.apache.kafka.connect.cli.{expected_class}"
    for _ in range(2):  # plugins may read the file repeatedly
        assert javaproperties.loads(Path(path).read_text("latin-1")) == PROPERTIES
    file.close()
    assert not Path(path).exists()
