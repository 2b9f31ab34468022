"""Tests that Kraal's responses equal those of Java Connect in both modes, except as documented in docs/compat.md."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scripts.harness.java_connect import CURRENT
from tests.differential.rows import PAGE, ids_in
from tests.differential.script import MODES
from tests.differential.steps.all_steps import SCRIPT
from tests.differential.steps.everywhere import OLDER_ROW
from tests.differential.workers import ReplayedStep

Outcome = Mapping[str, Mapping[str, ReplayedStep]]


@pytest.mark.parametrize(
    ("mode", "step"),
    [
        pytest.param(mode, step.name, id=f"{mode}, {step.name}")
        for mode in MODES
        for step in SCRIPT
        if step.only in ("", mode)
    ],
)
def test_kraal_response_equals_java_response(replayed: Outcome, mode: str, step: str) -> None:
    assert "\n".join(replayed[mode][step].verdict.faults) == ""


def test_every_documented_difference_occurs(replayed: Outcome, java_version: str) -> None:
    needed_rows = {
        row
        for steps in replayed.values()
        for replayed_step in steps.values()
        for row in replayed_step.verdict.needed_rows
    }
    unused_rows = {OLDER_ROW} if java_version == CURRENT else set()
    assert set(ids_in(PAGE.read_text("utf-8"))) - needed_rows == unused_rows, "remove these rows or their ids"
