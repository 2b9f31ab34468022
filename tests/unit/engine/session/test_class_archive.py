"""Tests for the removal of unused class archives. tests/integration/spark/test_session.py tests their use."""

from __future__ import annotations

import os
import time
from pathlib import Path

from kraal.engine.session.class_archive import delete_unused


def test_unused_archives_are_deleted(tmp_path: Path) -> None:
    month_s = 30 * 24 * 3600
    access_ages_s = {"target.jsa": 0, "unused.jsa": 2 * month_s, "in-use.jsa": 0, "a.jar": 2 * month_s}
    for name, age_s in access_ages_s.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age_s, time.time() - 2 * month_s))
    delete_unused(tmp_path / "target.jsa")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jar", "in-use.jsa", "target.jsa"]
