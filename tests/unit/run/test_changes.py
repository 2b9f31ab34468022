from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.run.changes import DEPENDENCIES, find_unaffected

ROOT = Path(__file__).parents[3]
CHART = "tests/integration/deploy/test_chart"
IN_PROCESS = [
    "tests/integration/connectors",
    "tests/integration/converters",
    "tests/integration/java_plugins/test_java_module",
    "tests/integration/java_plugins/test_mirror",
    "tests/integration/spark/test_session",
    "tests/integration/stores",
    "tests/unit/connectors/tables",
]
"""Suites that run Kraal in the test process. The dependencies of other suites are listed by topic."""


def test_empty_change_selects_no_tests() -> None:
    assert find_unaffected([]) == set(DEPENDENCIES)


@pytest.mark.parametrize("path", ["deploy/helm/values.yaml", "Dockerfile", f"{CHART}_values.py"])
def test_changed_dependency_or_test_selects_its_tests(path: str) -> None:
    assert CHART not in find_unaffected([path])


@pytest.mark.parametrize("path", ["deployed/a.py", "Dockerfile.old", "actors/herder.py"])
def test_unrelated_file_selects_no_tests(path: str) -> None:
    assert CHART in find_unaffected([path])


def test_paths_of_dependencies_exist() -> None:
    tests = [path for path in DEPENDENCIES if not list(ROOT.glob(f"{path}*"))]
    files = [path for paths in DEPENDENCIES.values() for path in paths if not (ROOT / path).exists()]
    assert tests + files == []


@pytest.mark.parametrize("tests", IN_PROCESS)
def test_dependencies_include_imports_of_the_tests(tests: str) -> None:
    allowed = (*DEPENDENCIES[tests], tests)
    assert [path for path in _imported(tests) if not path.startswith(allowed)] == []


def _imported(tests: str) -> list[str]:
    """Return the files and directories of the project that the given tests import."""
    files = [
        file for path in ROOT.glob(f"{tests}*") for file in (path.rglob("*.py") if path.is_dir() else [path])
    ]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    paths = {name.replace(".", "/") for name in names}
    modules = [f"{path}.py" for path in paths if (ROOT / f"{path}.py").is_file()]
    return sorted([*modules, *(path for path in paths if (ROOT / path).is_dir())])
