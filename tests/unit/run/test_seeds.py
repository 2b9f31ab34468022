from __future__ import annotations

from pathlib import Path

import pytest

from tests.run.seeds import SEEDS_A_RUN, choose_positions

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[3]
TESTS = """
import pytest

@pytest.mark.parametrize("mode", ["a", "b"])
@pytest.mark.parametrize("seed", range(5))
def test_many(seed, mode): pass

@pytest.mark.parametrize("seed", [7, 11])
def test_two(seed): pass

@pytest.mark.one_a_day("worker", "code")
@pytest.mark.parametrize("mode", ["a", "b"])
@pytest.mark.parametrize(
    ("worker", "code"),
    [("one", 1), pytest.param("other", 2, marks=pytest.mark.slow), ("third", 1)],
)
def test_workers(worker, code, mode): pass

def test_none(): pass
"""
MARKERS = "[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers =\n    one_a_day\n    slow"


@pytest.mark.parametrize("count", range(1, 41))
def test_every_seed_runs_within_as_many_days_as_seeds(count: int) -> None:
    days = [choose_positions(count, day) for day in range(739_000, 739_000 + count)]
    assert frozenset.union(*days) == frozenset(range(count))
    assert {len(day) for day in days} == {min(count, SEEDS_A_RUN)}


def collect(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, day: int, *options: str) -> set[str]:
    monkeypatch.setenv("KRAAL_TEST_SEEDS_DAY", str(day))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(TESTS)
    pytester.makeini(MARKERS)
    pytester.makeconftest('pytest_plugins = ["tests.run.seeds"]')
    result = pytester.runpytest_inprocess("--collect-only", "-q", "-pno:schemathesis", *options)
    return {line.partition("::")[2] for line in result.outlines if "::" in line}


def test_run_selects_the_seeds_of_its_day(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    other_tests = {"test_two[7]", "test_two[11]", "test_none"}
    many_tests = {f"test_many[{seed}-{mode}]" for seed in (4, 0) for mode in "ab"}
    other_tests |= {f"test_workers[{worker}-{mode}]" for worker in ("one-1", "other-2") for mode in "ab"}
    assert collect(pytester, monkeypatch, 2) == many_tests | other_tests, (
        "slow tests are deselected by their marker"
    )


def test_all_seeds_run_on_request(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(collect(pytester, monkeypatch, 2, "--seeds", "all")) == 19
