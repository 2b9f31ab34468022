"""Tests for the project that `kraal new connector` creates."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraal.cli.main import main
from kraal.core.errors import BadRequest
from kraal.scaffold.project import Kind, Names

ROOT = Path(__file__).parents[2]


def create_connector(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["new", "connector", *arguments], prog_name="kraal")
    return result.exit_code, result.output


def test_generated_test_of_a_new_sink_passes(tmp_path: Path) -> None:
    """New sources are tested by `test_plugin_howto.py`."""
    code, output = create_connector("my-orders", "--sink", "--in", str(tmp_path))
    assert (code, "MyOrdersSink" in output) == (0, True)
    project = tmp_path / "my-orders"
    project_table = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    assert project_table["entry-points"]["kraal.connectors"] == {
        "my_orders.MyOrdersSink": "my_orders.connector:MyOrdersSink"
    }
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 passed" in result.stdout


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    code, output = create_connector("mine", "--in", str(tmp_path))
    assert (code, "already exists" in output) == (1, True)
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", "Orders", "my_orders", "-a", "a-", "a--b", "1a", "a/b", "..", "é", "a" * 51]
)
def test_invalid_name_is_rejected_with_a_description_of_valid_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="lower-case letters, digits and single hyphens"):
        Names.of(name, "source")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["json", "class", "kraal", "actors", "pyarrow", "tests"])
def test_name_that_shadows_a_module_is_rejected(name: str) -> None:
    with pytest.raises(BadRequest, match="Invalid connector name "):
        Names.of(name, "source")


@pytest.mark.parametrize(("kind", "expected"), [("source", "LogTailSource"), ("sink", "LogTailSink")])
def test_names_are_derived_from_the_connector_name(kind: Kind, expected: str) -> None:
    assert Names.of("log-tail", kind) == Names("log-tail", "log_tail", expected)
