"""Tests that each field of the herder's state is changed only by its owner; other modules call the owner's methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ACTORS = Path(__file__).parents[4] / "actors"
PARTS = [ACTORS / "herder.py", *sorted((ACTORS / "herding").glob("*.py"))]
MUTATORS = {"add", "append", "clear", "discard", "extend", "pop", "popitem", "remove", "setdefault"}
ALIASES = {"state", "herder"}
"""Names of local variables that hold the herder's state."""


def is_state_field(node: ast.expr) -> bool:
    """Return whether an expression refers to a field of the herder's state, such as `self._state.work.x[y]`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
        if isinstance(node, ast.Attribute) and node.attr == "_state":
            return True
    return isinstance(node, ast.Name) and node.id in ALIASES


def assignment_lines(tree: ast.AST) -> Iterator[int]:
    """Yield the numbers of the lines in which a field of the state is assigned, deleted or mutated by a method call."""
    for node in ast.walk(tree):
        targets: list[ast.expr] = []
        if not isinstance(node, ast.stmt | ast.expr):
            continue
        match node:
            case ast.Assign() | ast.Delete():
                targets = node.targets
            case ast.AugAssign() | ast.AnnAssign():
                targets = [node.target]
            case ast.Call(func=ast.Attribute(attr=method, value=field)) if method in MUTATORS:
                targets = [field]
            case _:
                pass
        parts = [
            part
            for target in targets
            for part in (target.elts if isinstance(target, ast.Tuple) else [target])
        ]
        if any(isinstance(part, ast.Attribute | ast.Subscript) and is_state_field(part) for part in parts):
            yield node.lineno


@pytest.mark.parametrize("part", PARTS, ids=lambda path: path.stem)
def test_herder_parts_do_not_assign_state_fields(part: Path) -> None:
    lines = list(assignment_lines(ast.parse(part.read_text(encoding="utf-8"))))
    assert not lines, (
        f"{part.name} changes the herder's state in lines {lines}; call a method of the field's owner"
    )


@pytest.mark.parametrize(
    "line",
    [
        "self._state.live = True",
        "state.work.assignment = x",
        "state.restart_counts[i] = 1",
        "del state.suspended[name]",
        "self._state.statuses_owed.clear()",
        "before, self._state.assignment = self._state.assignment, x",
        "state.count += 1",
    ],
)
def test_assignment_to_state_is_detected(line: str) -> None:
    assert list(assignment_lines(ast.parse(line))) == [1]


@pytest.mark.parametrize("line", ["self._live = True", "state = self._state", "state.work.apply(names)"])
def test_statement_that_changes_no_state_field_is_not_reported(line: str) -> None:
    assert not list(assignment_lines(ast.parse(line)))
