"""Tests for colors of terminal output."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kraal.cli.main import main
from kraal.client.terminal.colors import STATES, cell_color, colorize, context_color
from kraal.client.text import table
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.workers.connect import Connect
from tests.unit.client.conftest import Files, Kraal

RED, GREEN, RESET = "\x1b[31m", "\x1b[32m", "\x1b[0m"


@pytest.fixture(autouse=True)
def no_color_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the color settings of the machine."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "is_forced", "is_plain"),
    [
        ({}, None, False),
        ({"NO_COLOR": ""}, None, False),
        ({"NO_COLOR": "1"}, None, True),
        ({"FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, None, True),
    ],
)
def test_no_color_overrides_force_color(
    environment: dict[str, str], *, is_forced: bool | None, is_plain: bool
) -> None:
    assert context_color(environment) is is_forced
    assert colorize("x", "red", environment) == ("x" if is_plain else f"{RED}x{RESET}")


def test_cells_are_colored_by_column_and_state() -> None:
    assert cell_color("STATE", "FAILED") == "red"
    assert cell_color("STATE", "RUNNING") == "green"
    assert cell_color("STATE", "PAUSED") == cell_color("STATE", "STOPPED") == "yellow"
    assert cell_color("TASKS", "1/2, 1 failed") == "red"
    assert cell_color("TASKS", "2/2") is None
    assert cell_color("NAME", "FAILED") is None


def test_every_state_of_connect_has_a_color() -> None:
    assert set(STATES) == {"UNASSIGNED", "RUNNING", "PAUSED", "FAILED", "RESTARTING", "STOPPED"}


def test_colors_preserve_column_widths_and_truncation() -> None:
    head, rows = ("NAME", "STATE", "NOTE"), [("FAILED", "FAILED", "FAILED"), ("日本", "RUNNING", "x")]
    for width in (None, 18, 12, 8):
        colored_lines = table(head, rows, width, colored=True)
        assert list(map(click.unstyle, colored_lines)) == table(head, rows, width)
    assert table(head, rows, colored=True)[1] == f"FAILED   {RED}FAILED{RESET}    FAILED"
    assert table(head, rows, 12, colored=True)[1] == f"FAILED   {RED}FA…{RESET}"


def test_control_characters_in_cells_are_escaped() -> None:
    assert table(("STATE",), [("\x1b[31mRUNNING",)], colored=True)[1] == r"\x1b[31mRUNNING"


def raw_output(kraal: Kraal, *arguments: str, **environment: str) -> str:
    """Run a command whose standard output is not a terminal; return its output with escape sequences."""
    env = {"KRAAL_URL": kraal.connect.url, **environment}
    return CliRunner().invoke(main, arguments, env=env, prog_name="kraal").stdout


@pytest.mark.parametrize("command", ["ls", "status", "describe", "top"])
def test_file_output_is_colored_only_if_forced(kraal: Kraal, worker: Connect, command: str) -> None:
    worker.create("orders", {"connector.class": FAKE_SOURCE})
    arguments = (command, "orders") if command != "ls" else (command,)
    forced_output = raw_output(kraal, *arguments, FORCE_COLOR="1")
    assert f"{GREEN}RUNNING{RESET}" in forced_output
    plain_output = raw_output(kraal, *arguments)
    assert "\x1b" not in plain_output
    assert "\x1b" not in raw_output(kraal, *arguments, FORCE_COLOR="1", NO_COLOR="1")
    if command != "top":
        assert click.unstyle(forced_output) == plain_output


def test_diff_output_is_colored_like_tables(kraal: Kraal, write: Files) -> None:
    file = write("a.yaml", f"name: a\nconnector.class: {FAKE_SOURCE}\n")
    assert f"{GREEN}+name: a{RESET}" in raw_output(kraal, "diff", "-f", file, FORCE_COLOR="1")
    assert "\x1b" not in raw_output(kraal, "diff", "-f", file, FORCE_COLOR="1", NO_COLOR="1")
