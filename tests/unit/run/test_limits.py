"""Tests for the time limits of the parts of CI."""

from __future__ import annotations

from tests.run.limits import allowed_s

FILES = {"tests/unit/core/test_ids.py": 100.0, "tests/integration/deploy/test_chart.py": 60.0}


def test_tests_of_changed_files_extend_the_limit() -> None:
    assert allowed_s(720, FILES, 1.0) == 750  # two processes


def test_slower_machine_has_a_higher_limit() -> None:
    assert allowed_s(720, {}, 1.5) == 1080


def test_faster_machine_has_the_same_limit() -> None:
    assert allowed_s(720, {}, 0.5) == 720
