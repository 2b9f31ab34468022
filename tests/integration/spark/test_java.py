"""The Java classes of `kraal/engine/java`: each compiles with the compiler that Spark ships, and loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kraal.engine import java
from kraal.engine.session.janino import loaded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = sorted(Path(java.__path__[0]).glob("*.java"))


def test_there_are_sources() -> None:
    assert "JsonScan" in {path.stem for path in SOURCES}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_each_source_compiles_and_loads(spark: SparkSession, path: Path) -> None:
    assert loaded(spark.sparkContext, f"kraal.{path.stem}").getName() == f"kraal.{path.stem}"
