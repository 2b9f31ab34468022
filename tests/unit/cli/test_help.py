"""Tests for `--help` of command groups."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kraal.cli.main import CLIENT_COMMANDS, WORKER_COMMANDS, main

GROUPS = [
    name
    for name, lazy in sorted({**CLIENT_COMMANDS, **WORKER_COMMANDS}.items())
    if isinstance(lazy.load(), click.Group)
]


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_group_help_truncates_no_command_summary(group: str) -> None:
    help_text = CliRunner().invoke(main, [*([group] if group else []), "--help"]).stdout
    assert "..." not in help_text.partition("\n\n")[2]
