"""Kraal answers as real Java Connect does, in both modes, but for what docs/compat.md lists."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scripts.harness.java_connect import CURRENT
from tests.differential.rows import PAGE, ids_in
from tests.differential.script import MODES
from tests.differential.stage import Replayed
from tests.differential.steps.all_steps import SCRIPT
from tests.differential.steps.everywhere import OLDER_ROW

Outcome = Mapping[str, Mapping[str, Replayed]]


@pytest.mark.parametrize(
    ("mode", "step"),
    [
        pytest.param(mode, step.name, id=f"{mode}, {step.name}")
        for mode in MODES
        for step in SCRIPT
        if step.only in ("", mode)
    ],
)
def test_both_answer_alike(replayed: Outcome, mode: str, step: str) -> None:
    assert "\n".join(replayed[mode][step].verdict.faults) == ""


def test_every_row_of_the_page_is_needed(replayed: Outcome, java_version: str) -> None:
    needed = {row for steps in replayed.values() for each in steps.values() for row in each.verdict.needed}
    older = {OLDER_ROW} if java_version == CURRENT else set()
    assert set(ids_in(PAGE.read_text("utf-8"))) - needed == older, "take these rows, or their ids, away"
