from __future__ import annotations

from pathlib import Path

import pytest

from tests.run.changes import DEPENDENCIES, unaffected

ROOT = Path(__file__).parents[3]
CHART = "tests/integration/deploy/test_chart"


def test_an_empty_change_selects_no_tests() -> None:
    assert unaffected([]) == set(DEPENDENCIES)


@pytest.mark.parametrize("path", ["deploy/helm/values.yaml", "Dockerfile", f"{CHART}_values.py"])
def test_a_changed_dependency_or_test_selects_its_tests(path: str) -> None:
    assert CHART not in unaffected([path])


@pytest.mark.parametrize("path", ["deployed/a.py", "Dockerfile.old", "actors/herder.py"])
def test_other_files_select_nothing(path: str) -> None:
    assert CHART in unaffected([path])


def test_every_path_of_the_table_exists() -> None:
    tests = [path for path in DEPENDENCIES if not list(ROOT.glob(f"{path}*"))]
    files = [path for paths in DEPENDENCIES.values() for path in paths if not (ROOT / path).exists()]
    assert tests + files == []
