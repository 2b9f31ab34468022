"""Tests that the script covers all operations, and that docs/compat.md documents its allowances."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.differential.rows import PAGE, ids_in
from tests.differential.script import MODES
from tests.differential.steps.all_steps import SCRIPT
from tests.differential.steps.everywhere import EVERYWHERE
from tests.unit.web.api import document
from web.settings import Settings

_PATHS = document(Settings(advertised_url="http://worker:8083/"))["paths"]
OPERATIONS = [(method.upper(), path) for path, methods in _PATHS.items() for method in methods]


def list_requests(mode: str) -> set[tuple[str, str]]:
    """Return the method and the path of all requests in a mode."""
    steps = [step for step in SCRIPT if step.only in ("", mode)]
    return {(request.method, request.path) for step in steps for request in step.requests}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_script_covers_every_operation_of_the_api(mode: str, method: str, path: str) -> None:
    pattern = re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)))
    assert any(sent == method and pattern.fullmatch(target) for sent, target in list_requests(mode))


@pytest.mark.parametrize("mode", MODES)
def test_script_has_at_least_300_steps_per_mode(mode: str) -> None:
    assert len([step for step in SCRIPT if step.only in ("", mode)]) >= 300


def test_step_names_are_unique() -> None:
    assert [name for name, count in Counter(step.name for step in SCRIPT).items() if count > 1] == []


def test_every_allowance_is_documented() -> None:
    used_rows = {allowance.row for allowance in EVERYWHERE} | {
        allowance.row for step in SCRIPT for allowance in step.allow
    }
    assert used_rows == set(ids_in(PAGE.read_text("utf-8")))


def test_row_ids_are_unique() -> None:
    assert [row for row, count in ids_in(PAGE.read_text("utf-8")).items() if count > 1] == []
