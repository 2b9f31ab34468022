"""Progress of long work, on a terminal and elsewhere."""

from __future__ import annotations

import io
import re
import sys
import threading

import click
import pytest
from typing_extensions import override

from kraal.core.progress import Progress, pause_drawing

LIMIT_S = 20.0


class Paper(io.StringIO):
    """Takes what is written, and lets a test wait for it."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self._written = threading.Condition()

    @override
    def isatty(self) -> bool:
        return self._is_terminal

    @override
    def write(self, text: str, /) -> int:
        with self._written:
            self._written.notify_all()
            return super().write(text)

    def wait_for(self, text: str) -> None:
        with self._written:
            found = self._written.wait_for(lambda: text in self.getvalue(), LIMIT_S)
        assert found, f"{text!r} is not in {self.getvalue()!r}"


@pytest.fixture
def terminal() -> Paper:
    return Paper(is_terminal=True)


@pytest.fixture
def file() -> Paper:
    return Paper(is_terminal=False)


def seen(paper: Paper) -> str:
    """Return what is left to see on a terminal: each line as it was drawn last."""
    lines = []
    for line in paper.getvalue().split("\n"):
        drawn = line.replace("\x1b[?25h", "").replace("\x1b[?25l", "").split("\r")[-1]
        lines.append(drawn.replace("\x1b[2K", "").rstrip())
    return "\n".join(lines)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_quick_work_shows_no_progress(*, is_terminal: bool) -> None:
    paper = Paper(is_terminal=is_terminal)
    with Progress("Working", 3, file=paper) as progress:
        progress.at(3)
    assert paper.getvalue() == ""


def test_a_file_gets_a_line_now_and_then_and_one_at_the_end(file: Paper) -> None:
    times = iter([0.0, 2.0, 12.0, *[99.0] * 1000])
    with Progress(
        "Downloading 34 jars", 34, file=file, after_s=0.001, every_s=0.001, now=lambda: next(times)
    ):
        file.wait_for("0 of 34, 12 s\n")
    lines = file.getvalue().splitlines()
    assert lines[:2] == ["Downloading 34 jars: 0 of 34, 2 s", "Downloading 34 jars: 0 of 34, 12 s"]
    assert lines[-1] == "Downloading 34 jars took 99 s"
    assert "\x1b" not in file.getvalue()


def test_a_file_gets_lines_every_ten_seconds() -> None:
    """A terminal is drawn more often: see the class."""
    assert Progress("x", file=Paper(is_terminal=False))._every_s == 10.0  # noqa: SLF001 - not to wait for it
    assert Progress("x", file=Paper(is_terminal=True))._every_s < 1.0  # noqa: SLF001 - the same


def test_steps_and_details_are_shown(file: Paper) -> None:
    with Progress("Migrating", 2000, file=file, after_s=0.001, every_s=0.001) as progress:
        progress.advance(1500, "orders")
        file.wait_for("Migrating: 1,500 of 2,000, orders, ")
        progress.advance(499)
        file.wait_for("Migrating: 1,999 of 2,000, 0 s")


def test_a_terminal_has_one_line_with_a_bar_that_goes_away(terminal: Paper) -> None:
    with Progress("Waiting", 4, file=terminal, after_s=0.001, every_s=0.001) as progress:
        progress.at(1, "orders")
        terminal.wait_for("1/4")
        assert "\n" not in terminal.getvalue()
        assert re.search(r"Waiting  \[#{4}-{12}\]  1/4", click.unstyle(terminal.getvalue()))
        assert "orders" in terminal.getvalue()
    assert seen(terminal) == ""
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l"), "cursor"


def test_a_terminal_shows_the_time_if_the_total_is_unknown(terminal: Paper) -> None:
    with Progress("Starting", file=terminal, after_s=0.001, every_s=0.001):
        terminal.wait_for("Starting  0 s")
    assert "[" not in re.sub(r"\x1b\[[?\w]*", "", terminal.getvalue())


def fail(paper: Paper) -> None:
    with Progress("Working", file=paper, after_s=0.001, every_s=100):
        paper.wait_for("Working")
        raise ValueError("no")


def test_failed_work_ends_without_a_word(terminal: Paper, file: Paper) -> None:
    for paper in (terminal, file):
        with pytest.raises(ValueError, match="no"):
            fail(paper)
        assert "took" not in paper.getvalue()
    assert seen(terminal) == ""


def test_other_lines_are_printed_on_lines_of_their_own(terminal: Paper) -> None:
    with Progress("Working", 2, file=terminal, after_s=0.001, every_s=0.001) as progress:
        terminal.wait_for("0/2")
        with pause_drawing():
            terminal.write("orders is RUNNING\n")
        progress.advance()
        terminal.wait_for("1/2")
    assert seen(terminal) == "orders is RUNNING\n"


def test_only_the_innermost_work_is_shown(terminal: Paper, file: Paper) -> None:
    with Progress("Outer", file=terminal, after_s=0.001, every_s=0.001):
        terminal.wait_for("Outer  0 s")
        with Progress("Inner", file=file, after_s=0.001, every_s=0.001):
            before = terminal.getvalue()
            file.wait_for("Inner: 0 s\nInner: 0 s\n")
            assert terminal.getvalue() == before
        terminal.wait_for("Outer")


def test_standard_error_is_where_it_is_shown(monkeypatch: pytest.MonkeyPatch, file: Paper) -> None:
    monkeypatch.setattr(sys, "stderr", file)
    with Progress("Working", after_s=0.001, every_s=0.001):
        file.wait_for("Working: ")


@pytest.mark.parametrize("what", ["Working", "W" * 200])
def test_a_long_text_stays_on_one_line(terminal: Paper, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with Progress(what, 10_000, file=terminal, after_s=0.001, every_s=0.001) as progress:
        progress.at(9_999, "d" * 200)
        terminal.wait_for("9999/10000")
        drawn = click.unstyle(terminal.getvalue()).split("\r")
    assert max(map(len, drawn)) <= 80


def test_a_name_cannot_bring_control_characters(file: Paper) -> None:
    with Progress("Migrating", 2, file=file, after_s=0.001, every_s=0.001) as progress:
        progress.at(1, "a\x1b[2J")
        file.wait_for(r"1 of 2, a\x1b[2J, 0 s")


def test_work_continues_when_output_is_not_read(file: Paper, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    def fail(_: str) -> int:
        tried.set()
        raise BrokenPipeError

    monkeypatch.setattr(file, "write", fail)
    with Progress("Working", file=file, after_s=0.001, every_s=0.001):
        assert tried.wait(LIMIT_S)
    assert file.getvalue() == ""
