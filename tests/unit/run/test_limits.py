"""How long a part of CI may take."""

from __future__ import annotations

from tests.run.limits import allowed_s

FILES = {"tests/unit/core/test_ids.py": 100.0, "tests/integration/deploy/test_chart.py": 60.0}


def test_tests_that_run_by_change_do_not_count() -> None:
    assert allowed_s(720, FILES, 1.0) == 750  # two processes


def test_a_slower_machine_may_take_longer() -> None:
    assert allowed_s(720, {}, 1.5) == 1080


def test_a_faster_machine_may_take_as_long() -> None:
    assert allowed_s(720, {}, 0.5) == 720
