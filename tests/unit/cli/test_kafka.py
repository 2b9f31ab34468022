from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

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


def test_an_unknown_group_of_jars_is_one_sentence() -> None:
    result = CliRunner().invoke(main, ["jars", "nonsense"])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "Unknown group of jars 'nonsense'" in result.stderr
