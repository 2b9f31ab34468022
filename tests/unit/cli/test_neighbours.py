"""Other packages named `web` or `actors`; tests/integration/packages has those that pip installs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraal.cli import neighbours
from kraal.cli.main import main


def test_a_foreign_package_of_our_name_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intruder = tmp_path / "web" / "__init__.py"
    intruder.parent.mkdir()
    intruder.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "web", raising=False)
    result = CliRunner().invoke(main, ["jars", "--help"])
    assert result.exit_code == 1
    assert f"package 'web' is shadowed by {intruder}" in result.stderr


def test_a_package_without_kraals_mark_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_MARK", "__nobody__ = True")
    result = CliRunner().invoke(main, ["jars", "--help"])
    assert result.exit_code == 1
    assert "Kraal's package 'actors' was replaced by " in result.stderr


def test_kraals_own_packages_are_no_neighbours() -> None:
    neighbours.check_neighbours()
