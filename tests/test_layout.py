"""Rules that linters do not check: maximum lengths, sleeps in tests, and imports of Spark."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULE_LINES, CLASS_LINES, FUNCTION_LINES = 500, 300, 60


def modules() -> list[Path]:
    paths = [path for folder in ("actors", "web", "kraal", "tests") for path in (ROOT / folder).rglob("*.py")]
    return sorted([*paths, *(ROOT / "scripts").rglob("*.py")])


def count_lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def definitions(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a tree, which contain its classes and functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            if isinstance(node, ast.stmt):
                yield node
            yield from definitions(node)


def too_long(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT)
    if (lines := len(text.splitlines())) > MODULE_LINES:
        yield f"{name}: module of {lines} lines, {MODULE_LINES} at most"
    for node in definitions(ast.parse(text)) if lines > FUNCTION_LINES else ():
        if isinstance(node, ast.ClassDef) and count_lines(node) > CLASS_LINES:
            yield f"{name}:{node.lineno}: class {node.name} of {count_lines(node)} lines, {CLASS_LINES} at most"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and count_lines(node) > FUNCTION_LINES:
            yield f"{name}:{node.lineno}: {node.name}() of {count_lines(node)} lines, {FUNCTION_LINES} at most"


def sleeps(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "sleep" in text else ():
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
                is_sleep = True
            case ast.ImportFrom(module="time", names=names):
                is_sleep = any(alias.name == "sleep" for alias in names)
            case _:
                is_sleep = False
        if is_sleep:
            yield f"{path.relative_to(ROOT)}: time.sleep in a unit test"


def test_modules_respect_length_limits() -> None:
    assert [fault for path in modules() for fault in too_long(path)] == []


def test_unit_tests_do_not_sleep() -> None:
    assert [fault for path in (ROOT / "tests" / "unit").rglob("*.py") for fault in sleeps(path)] == []


@pytest.mark.parametrize("module", ["kraal.plugins.api", "kraal.cluster", "kraal.broker.broker"])
def test_module_imports_without_spark(module: str) -> None:
    code = f"import sys, {module}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_java_lookup_imports_without_packages() -> None:
    code = "import kraal.jars.java"  # scripts run it before packages are installed
    assert subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, check=False).returncode == 0
