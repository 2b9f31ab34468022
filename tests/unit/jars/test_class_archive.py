"""Tests for the path of the class archive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kraal.jars import class_archive
from kraal.jars.class_archive import archive_path


def test_reinstalled_spark_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java, jars = tmp_path / "java", [tmp_path / "a.jar", tmp_path / "b.jar"]
    for file in (java, *jars):
        file.touch()
    monkeypatch.setattr(class_archive, "find_java", lambda: java)
    monkeypatch.setattr(class_archive, "pyspark_jars", lambda _: iter(jars))
    path_before = archive_path()
    assert archive_path() == path_before
    later_s = jars[1].stat().st_mtime + 60
    os.utime(jars[1], (later_s, later_s))
    assert archive_path() != path_before
