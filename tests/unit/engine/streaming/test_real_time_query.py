"""Tests for the checkpoints of queries in real-time mode."""

from __future__ import annotations

from pathlib import Path

from kraal.engine.streaming.real_time_query import CHECKPOINTS, new_checkpoint


def test_each_checkpoint_has_a_new_private_directory(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    checkpoints = [new_checkpoint(scratch), new_checkpoint(scratch)]
    assert sorted((scratch / CHECKPOINTS).iterdir()) == sorted(checkpoints)
    assert [checkpoint.stat().st_mode & 0o777 for checkpoint in checkpoints] == [0o700, 0o700]
