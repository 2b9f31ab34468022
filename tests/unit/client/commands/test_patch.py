"""Tests for `kraal patch`."""

from __future__ import annotations

import pytest

from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect
from tests.unit.client.conftest import Files, Kraal


def test_patch_changes_single_keys(kraal: Kraal, worker: Connect, write: Files) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "x": "1", "y": "2", "z": "3"})
    path = write("p.json", '{"y": null, "w": 1.50, "v": true}')
    assert kraal.out("patch", "a", "x=10", "q=a=b", "--remove", "z", "-f", path) == "a configured\n"
    config = {"connector.class": FAKE_SOURCE, "name": "a", "x": "10", "q": "a=b", "w": "1.50", "v": "true"}
    assert worker.config("a") == config
    assert kraal.out("patch", "a", "x=10", "--remove", "z") == "a unchanged\n"


def test_dry_run_shows_differences_and_errors(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE, "my.password": "old"})
    result = kraal("patch", "a", "tasks.max=0", "my.password=hunter2", "--dry-run")
    assert result.exit_code == 1
    assert "+my.password: [hidden] (changed)\n" in result.stdout
    assert (
        result.stderr == "Error: a: Invalid value 0 for configuration tasks.max: Value must be at least 1\n"
    )
    assert "tasks.max" not in worker.config("a")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["patch", "a"], 2, "Nothing to change"),
        (["patch", "a", "x"], 2, "Invalid argument 'x'; expected KEY=VALUE."),
        (["patch", "nobody", "x=1"], 1, "Connector nobody not found"),
        (["patch", "a", "-f", "missing.json"], 1, "No such file"),
        (["patch", "a", "name=b"], 1, "doesn't match"),
    ],
)
def test_invalid_patch_is_rejected(
    kraal: Kraal, worker: Connect, arguments: list[str], code: int, message: str
) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE})
    result = kraal(*arguments)
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr
