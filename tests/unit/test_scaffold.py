"""A new connector's project: its names, and that its own test passes as it was written."""

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


def new(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["new", "connector", *arguments], prog_name="kraal")
    return result.exit_code, result.output


def test_the_project_of_a_new_sink_passes_its_own_test(tmp_path: Path) -> None:
    """A source's runs in `test_plugin_howto.py`."""
    code, said = new("my-orders", "--sink", "--in", str(tmp_path))
    assert (code, "MyOrdersSink" in said) == (0, True)
    project = tmp_path / "my-orders"
    declared = tomllib.loads((project / "pyproject.toml").read_text("utf-8"))["project"]
    assert declared["entry-points"]["kraal.connectors"] == {
        "my_orders.MyOrdersSink": "my_orders.connector:MyOrdersSink"
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    code, said = new("mine", "--in", str(tmp_path))
    assert (code, "already exists" in said) == (1, True)
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", "Orders", "my_orders", "-a", "a-", "a--b", "1a", "a/b", "..", "é", "a" * 51]
)
def test_rejects_an_invalid_name_and_names_the_valid_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="lower-case letters, digits and single hyphens"):
        Names.of(name, "source")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["json", "class", "kraal", "actors", "pyarrow", "tests"])
def test_a_name_that_hides_another_module_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="Invalid connector name "):
        Names.of(name, "source")


@pytest.mark.parametrize(("kind", "expected"), [("source", "LogTailSource"), ("sink", "LogTailSink")])
def test_one_name_gives_all(kind: Kind, expected: str) -> None:
    assert Names.of("log-tail", kind) == Names("log-tail", "log_tail", expected)
