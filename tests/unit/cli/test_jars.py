from __future__ import annotations

from click.testing import CliRunner

from kraal.cli.main import main


def test_unknown_group_of_jars_is_a_one_line_error() -> None:
    result = CliRunner().invoke(main, ["jars", "nonsense"])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "Unknown group of jars 'nonsense'" in result.stderr
