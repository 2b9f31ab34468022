from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.run.durations import page, seconds_of_files

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]
TESTS = """
import pytest

@pytest.fixture(scope="module")
def slow():
    import threading
    threading.Event().wait(0.2)

def test_one(slow): pass

def test_two(slow): pass
"""
PART: dict[str, dict[str, float]] = {
    "files": {"tests/a.py": 1.5, "tests/b.py": 20.0},
    "fixtures": {"kafka (session, tests)": 6.5, "quick (function, tests)": 0.4},
    "tests": {"tests/a.py": 3, "tests/b.py": 1},
}


@pytest.mark.parametrize("processes", ["0", "2"])
def test_durations_of_files_and_fixtures_are_written(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    path = pytester.makepyfile(TESTS)
    pytester.makeconftest('pytest_plugins = ["tests.run.durations"]')
    pytester.runpytest_subprocess(
        "-pno:schemathesis", "-n", processes, "--dist", "loadfile", "--durations-to", "out/part.json"
    )
    part = json.loads((pytester.path / "out" / "part.json").read_text("utf-8"))
    assert part["tests"] == {path.name: 2}
    assert part["files"][path.name] >= 0.2
    assert list(part["fixtures"]) == [f"slow (module, {path.name})"]


def test_page_sums_all_parts_and_lists_the_slowest_first() -> None:
    text = page([PART, PART])
    assert list(seconds_of_files(text).items()) == [("tests/b.py", 40.0), ("tests/a.py", 3.0)]
    assert "| kafka (session, tests) | 13.0 |" in text
    assert "quick" not in text
