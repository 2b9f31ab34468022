"""Tests for the progress of long operations, on terminals and in files."""

from __future__ import annotations

import io
import re
import sys
import threading

import click
import pytest
from typing_extensions import override

from kraal.core.progress import Progress, pause_drawing

TIMEOUT_S = 20.0


class RecordingFile(io.StringIO):
    """A file that records its output and lets a test wait until the file contains a text."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self._changed = threading.Condition()

    @override
    def isatty(self) -> bool:
        return self._is_terminal

    @override
    def write(self, text: str, /) -> int:
        with self._changed:
            self._changed.notify_all()
            return super().write(text)

    def wait_for(self, text: str) -> None:
        with self._changed:
            is_written = self._changed.wait_for(lambda: text in self.getvalue(), TIMEOUT_S)
        assert is_written, f"{text!r} is not in {self.getvalue()!r}"


@pytest.fixture
def terminal() -> RecordingFile:
    return RecordingFile(is_terminal=True)


@pytest.fixture
def file() -> RecordingFile:
    return RecordingFile(is_terminal=False)


def visible_lines(output: RecordingFile) -> str:
    """Return the visible lines of a terminal."""
    lines = []
    for line in output.getvalue().split("\n"):
        visible_text = line.replace("\x1b[?25h", "").replace("\x1b[?25l", "").split("\r")[-1]
        lines.append(visible_text.replace("\x1b[2K", "").rstrip())
    return "\n".join(lines)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_short_operation_shows_no_progress(*, is_terminal: bool) -> None:
    output = RecordingFile(is_terminal=is_terminal)
    with Progress("Working", 3, file=output) as progress:
        progress.set_done(3)
    assert output.getvalue() == ""


def test_file_gets_lines_at_intervals_and_at_the_end(file: RecordingFile) -> None:
    times = iter([0.0, 2.0, 12.0, *[99.0] * 1000])
    with Progress(
        "Downloading 34 jars", 34, file=file, after_s=0.001, every_s=0.001, now=lambda: next(times)
    ):
        file.wait_for("0 of 34, 12 s\n")
    lines = file.getvalue().splitlines()
    assert lines[:2] == ["Downloading 34 jars: 0 of 34, 2 s", "Downloading 34 jars: 0 of 34, 12 s"]
    assert lines[-1] == "Downloading 34 jars took 99 s"
    assert "\x1b" not in file.getvalue()


def test_file_gets_line_every_ten_seconds() -> None:
    """Terminals are updated more often."""
    assert Progress("x", file=RecordingFile(is_terminal=False))._every_s == 10.0  # noqa: SLF001 - avoids waiting
    assert Progress("x", file=RecordingFile(is_terminal=True))._every_s < 1.0  # noqa: SLF001 - as above


def test_steps_and_details_are_shown(file: RecordingFile) -> None:
    with Progress("Migrating", 2000, file=file, after_s=0.001, every_s=0.001, now=lambda: 0.0) as progress:
        progress.advance(1500, "orders")
        file.wait_for("Migrating: 1,500 of 2,000, orders, ")
        progress.advance(499)
        file.wait_for("Migrating: 1,999 of 2,000, 0 s")


def test_terminal_shows_bar_and_erases_it(terminal: RecordingFile) -> None:
    with Progress("Waiting", 4, file=terminal, after_s=0.001, every_s=0.001) as progress:
        progress.set_done(1, "orders")
        terminal.wait_for("1/4")
        assert "\n" not in terminal.getvalue()
        assert re.search(r"Waiting  \[#{4}-{12}\]  1/4", click.unstyle(terminal.getvalue()))
        assert "orders" in terminal.getvalue()
    assert visible_lines(terminal) == ""
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l"), (
        "the cursor is shown again"
    )


def test_terminal_shows_elapsed_time_without_total(terminal: RecordingFile) -> None:
    with Progress("Starting", file=terminal, after_s=0.001, every_s=0.001, now=lambda: 0.0):
        terminal.wait_for("Starting  0 s")
    assert "[" not in re.sub(r"\x1b\[[?\w]*", "", terminal.getvalue())


def fail(output: RecordingFile) -> None:
    with Progress("Working", file=output, after_s=0.001, every_s=100):
        output.wait_for("Working")
        raise ValueError("no")


def test_failed_operation_prints_no_duration(terminal: RecordingFile, file: RecordingFile) -> None:
    for output in (terminal, file):
        with pytest.raises(ValueError, match="no"):
            fail(output)
        assert "took" not in output.getvalue()
    assert visible_lines(terminal) == ""


def test_other_output_is_on_separate_lines(terminal: RecordingFile) -> None:
    with Progress("Working", 2, file=terminal, after_s=0.001, every_s=0.001) as progress:
        terminal.wait_for("0/2")
        with pause_drawing():
            terminal.write("orders is RUNNING\n")
        progress.advance()
        terminal.wait_for("1/2")
    assert visible_lines(terminal) == "orders is RUNNING\n"


def test_only_innermost_operation_is_shown(terminal: RecordingFile, file: RecordingFile) -> None:
    with Progress("Outer", file=terminal, after_s=0.001, every_s=0.001, now=lambda: 0.0):
        terminal.wait_for("Outer  0 s")
        with Progress("Inner", file=file, after_s=0.001, every_s=0.001, now=lambda: 0.0):
            output_before = terminal.getvalue()
            file.wait_for("Inner: 0 s\nInner: 0 s\n")
            assert terminal.getvalue() == output_before
        terminal.wait_for("Outer")


def test_progress_is_written_to_standard_error(monkeypatch: pytest.MonkeyPatch, file: RecordingFile) -> None:
    monkeypatch.setattr(sys, "stderr", file)
    with Progress("Working", after_s=0.001, every_s=0.001):
        file.wait_for("Working: ")


@pytest.mark.parametrize("description", ["Working", "W" * 200])
def test_long_description_stays_on_one_line(
    terminal: RecordingFile, monkeypatch: pytest.MonkeyPatch, description: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with Progress(description, 10_000, file=terminal, after_s=0.001, every_s=0.001) as progress:
        progress.set_done(9_999, "d" * 200)
        terminal.wait_for("9999/10000")
        drawn_lines = click.unstyle(terminal.getvalue()).split("\r")
    assert max(map(len, drawn_lines)) <= 80


def test_control_characters_in_detail_are_escaped(file: RecordingFile) -> None:
    with Progress("Migrating", 2, file=file, after_s=0.001, every_s=0.001, now=lambda: 0.0) as progress:
        progress.set_done(1, "a\x1b[2J")
        file.wait_for(r"1 of 2, a\x1b[2J, 0 s")


def test_closed_output_does_not_fail_operation(file: RecordingFile, monkeypatch: pytest.MonkeyPatch) -> None:
    write_attempted = threading.Event()

    def fail(_: str) -> int:
        write_attempted.set()
        raise BrokenPipeError

    monkeypatch.setattr(file, "write", fail)
    with Progress("Working", file=file, after_s=0.001, every_s=0.001):
        assert write_attempted.wait(TIMEOUT_S)
    assert file.getvalue() == ""
