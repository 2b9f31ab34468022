"""Tests for `--release`, which selects the tests and the jars of the broker and of Java workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.jars.jars import LOCK, parse_lock
from kraal.jars.lock import JAVA_WORKERS, RELEASES
from kraal.testing.process import Answer
from tests.fakes.kafka.releases import VARIABLE, broker_jars, make_comparable, worker_version

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
TESTS_WITH_MARKER = """
import pytest

def test_plain(): pass

@pytest.mark.releases
def test_marked(): pass
"""


@pytest.mark.parametrize(("options", "passed"), [((), 2), (("--release", "3.9"), 1)])
def test_run_with_a_release_selects_only_marked_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], passed: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest('pytest_plugins = ["tests.run.releases"]')
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\naddopts = -pno:schemathesis\n"
        "markers =\n    releases: a\n"
    )
    pytester.makepyfile(TESTS_WITH_MARKER)
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=passed, deselected=2 - passed)


@pytest.mark.parametrize("release", ["", *RELEASES])
def test_jars_of_a_release_are_locked(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    monkeypatch.setenv(VARIABLE, release)
    groups = parse_lock(LOCK.read_text("utf-8"))
    names = {str(jar.coordinates) for jar in groups[broker_jars()]}
    assert not release or f"org.apache.kafka:kafka_2.13:{RELEASES[release]}" in names
    assert not release or worker_version() == RELEASES[release]
    assert any("connect-file" in str(jar.coordinates) for jar in groups[JAVA_WORKERS[worker_version()]])


def test_versions_of_plugins_are_not_compared_with_releases_that_lack_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    answer_with_version = Answer(
        200, {"connector": {"state": "RUNNING", "version": "4.3.0"}, "tasks": [{"version": "1"}]}
    )
    answer_without_version = Answer(200, {"connector": {"state": "RUNNING"}, "tasks": [{}]})
    assert make_comparable(answer_with_version) != make_comparable(answer_without_version)
    assert make_comparable(answer_with_version, "4.0") == make_comparable(answer_without_version, "4.0")
    monkeypatch.setenv(VARIABLE, "3.9")
    assert make_comparable(answer_with_version) == make_comparable(answer_without_version)
