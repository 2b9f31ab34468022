"""Tests for other packages named `web` or `actors`. tests/integration/packages covers packages installed by pip."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraal.cli import neighbours
from kraal.cli.main import main


def test_shadowing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    intruder = tmp_path / "web" / "__init__.py"
    intruder.parent.mkdir()
    intruder.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "web", raising=False)
    result = CliRunner().invoke(main, ["jars", "--help"])
    assert result.exit_code == 1
    assert f"package 'web' is shadowed by {intruder}" in result.stderr


def test_package_without_marker_is_reported_as_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "_MARKER", "__nobody__ = True")
    result = CliRunner().invoke(main, ["jars", "--help"])
    assert result.exit_code == 1
    assert "Kraal's package 'actors' was replaced by " in result.stderr


def test_kraals_packages_are_accepted() -> None:
    neighbours.check_neighbours()
