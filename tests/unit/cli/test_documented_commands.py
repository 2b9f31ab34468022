"""Tests that `kraal` accepts every command line in the documentation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kraal.cli.main import main

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "scripts" / "README.md"])
FENCED_BLOCK = re.compile(r"^ *```[^`\n]*\n(.*?)```", re.DOTALL | re.MULTILINE)
SCRIPT_PATH = re.compile(r"(?:^|\s)(?:\./)?(scripts/[\w/]+|\.ci/run)\b")


def command_lines(page: Path) -> Iterator[str]:
    """Yield the command lines in fenced blocks and the commands within sentences, without prompts."""
    text = page.read_text(encoding="utf-8")
    for block in FENCED_BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            command = line.strip().removeprefix("$ ")
            if re.match(r"kraal [a-z]", command):
                yield command
    if page.name != "CHANGELOG.md":  # contains commands of earlier versions
        for span in re.findall(r"`([^`]+)`", FENCED_BLOCK.sub("", text)):
            if match := re.search(r"(?:^|\s)kraal [a-z].*", " ".join(span.split())):
                yield match[0].strip()


def split_calls(line: str) -> Iterator[list[str]]:
    """Split a line at `;`, `&&`, `|` and redirections; yield the arguments of each call of `kraal`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|>")
    lexer.whitespace_split = True
    call: list[str] = []
    for token in [*lexer, ";"]:
        if not set(token) <= set(";&|>"):
            call.append(token)
            continue
        if call and call[0] == "kraal":
            yield call[1:]
        call = []


COMMAND_LINES = [(page, line) for page in PAGES for line in command_lines(page)]


def test_documented_command_lines_exist() -> None:
    assert len(COMMAND_LINES) > 50


@pytest.mark.parametrize(
    ("page", "line"), COMMAND_LINES, ids=[f"{page.relative_to(ROOT)}: {line}" for page, line in COMMAND_LINES]
)
def test_kraal_accepts_the_command(page: Path, line: str) -> None:
    """With `--help` at the end, a command has no effect but still rejects unknown subcommands and options."""
    for arguments in split_calls(line):
        result = CliRunner().invoke(main, [*arguments, "--help"])
        assert result.exit_code == 0, f"{page.name}: {result.output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_documented_scripts_are_executable(page: Path) -> None:
    for block in re.findall(r"```(?:bash|sh)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for script in SCRIPT_PATH.findall(block):
            assert (ROOT / script).stat().st_mode & 0o100, f"{page.name} names {script}"
