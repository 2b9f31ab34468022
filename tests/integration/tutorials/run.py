"""A runner of a tutorial: `python -m tests.integration.tutorials.run PAGE DIRECTORY [postgresql]`.

The runner must have its own network namespace, in which the ports of the page are not in use. The output of the
terminals is copied to standard output.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from scripts.harness.postgresql import postgresql
from scripts.harness.processes import ScriptFailed, wait_until
from scripts.harness.show import say
from tests.integration.tutorials.page import FIRST_TERMINAL, Command, File, Interrupt, pattern, steps

STEP_TIMEOUT_S: Final = 180.0
POLL_INTERVAL_S: Final = 0.5
OUTPUT_TIMEOUT_S: Final = 180.0
"""Timeout for the expected output."""
END_MARK: Final = "the step has ended with"
PROGRESS: Final = re.compile(r"^[A-Z][a-z]+ing .*(?:: |, | took )\d+ s\n", re.MULTILINE)
"""Matches progress lines, which are transient on a terminal; see kraal.core.progress."""


class Terminal:
    """A shell in which commands are entered."""

    def __init__(self, number: int, directory: Path, logs: Path) -> None:
        """Open a terminal in `directory`."""
        self._steps = logs / f"terminal-{number}"
        self._steps.mkdir()
        self._log = self._steps / "log"
        self._step_count, self._start = 0, 0
        with self._log.open("wb") as output:
            self._bash = subprocess.Popen(
                ["bash", "--norc"],  # noqa: S607 - any bash
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                text=True,
            )
        # The first terminal exits after a failed command. The others survive Ctrl-C, which interrupts a command.
        self._write_line("set -e" if number == FIRST_TERMINAL else "trap : INT")

    def enter(self, text: str, *, is_read_only: bool = False) -> None:
        """Enter commands without waiting for their completion."""
        self._step_count += 1
        path = self._steps / f"{self._step_count}.sh"
        path.write_text(text, encoding="utf-8")
        self._start = self._log.stat().st_size
        status = (
            f"bash -e {path} </dev/null && status=0 || status=$?"
            if is_read_only
            else f". {path} </dev/null; status=$?"
        )
        self._write_line(f"{status}; printf '\\n%s %s\\n' '{END_MARK}' $status")

    def output(self) -> str:
        """Return the output since the last commands were entered."""
        return self._log.read_bytes()[self._start :].decode(errors="replace").partition(f"\n{END_MARK}")[0]

    def end(self) -> int:
        """Wait for the commands to complete and return their exit code. Raises ScriptFailed."""
        wait_until("the commands ended", lambda: self._code() is not None, timeout_s=STEP_TIMEOUT_S)
        return self._code() or 0

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.killpg(self._bash.pid, signal.SIGINT)

    def _code(self) -> int | None:
        text = self._log.read_bytes()[self._start :].decode(errors="replace")
        _, separator, rest = text.partition(f"\n{END_MARK} ")
        if separator and rest.endswith("\n"):
            return int(rest)
        return self._bash.poll()

    def _write_line(self, line: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{line}\n")
        self._bash.stdin.flush()


class Reader:
    """A reader who executes the steps of a page."""

    def __init__(self, directory: Path, logs: Path) -> None:
        """`directory` must be empty. The output of the terminals is written to `logs`."""
        self._directory, self._logs = directory, logs
        self._terminals: dict[int, Terminal] = {}
        self.differences: list[str] = []
        """Differences from the expected output. A difference does not end the run."""

    def do(self, step: Command | File | Interrupt) -> None:
        """Execute a step and compare its output with the page. Raises ScriptFailed if a command fails."""
        match step:
            case File(name, text):
                say(f"--- {name}\n{text}")
                (self._directory / name).write_text(text, encoding="utf-8")
            case Interrupt(number):
                say(f"--- Ctrl-C in terminal {number}")
                terminal = self._terminals[number]
                terminal.interrupt()
                if (code := terminal.end()) not in {0, 128 + signal.SIGINT}:
                    raise ScriptFailed(f"The command exited with {code} after Ctrl-C:\n{terminal.output()}")
            case Command():
                say(f"--- terminal {step.terminal}\n{step.text}")
                self._enter(step)

    def _enter(self, step: Command) -> None:
        terminal = self._terminals.get(step.terminal)
        if terminal is None:
            terminal = Terminal(step.terminal, self._directory, self._logs)
            self._terminals[step.terminal] = terminal
        start_s = time.monotonic()
        while True:
            terminal.enter(step.text, is_read_only=step.is_read_only)
            code = terminal.end() if step.terminal == FIRST_TERMINAL else 0
            if step.terminal != FIRST_TERMINAL or not step.is_read_only:
                break
            if _matches(step, terminal) or time.monotonic() - start_s > OUTPUT_TIMEOUT_S:
                break
            time.sleep(POLL_INTERVAL_S)
        if step.terminal != FIRST_TERMINAL:
            _await(step, terminal)
        say(f"{terminal.output()}\n--- after {time.monotonic() - start_s:.1f} s")
        if code:
            raise ScriptFailed(f"The last command exited with {code}.")
        if not _matches(step, terminal):
            self.differences.append(
                f"The page shows:\n{step.expected_output}\nThe terminal shows:\n{terminal.output()}"
            )


def _matches(step: Command, terminal: Terminal) -> bool:
    """Return whether a terminal shows the expected output. The first terminal must not show anything else."""
    if step.expected_output is None:
        return True
    expected, output = pattern(step.expected_output), PROGRESS.sub("", terminal.output().rstrip("\n") + "\n")
    return (
        expected.fullmatch(output) if step.terminal == FIRST_TERMINAL else expected.search(output)
    ) is not None


def _await(step: Command, terminal: Terminal) -> None:
    with suppress(ScriptFailed):  # the output is compared afterwards
        wait_until(
            "the expected output was shown", lambda: _matches(step, terminal), timeout_s=OUTPUT_TIMEOUT_S
        )


@contextmanager
def _database() -> Iterator[None]:
    """Run the PostgreSQL server required by a page, with its programs in PATH."""
    with postgresql("wal_level=logical", port=5432) as server:
        server.ask("CREATE ROLE postgres SUPERUSER LOGIN PASSWORD 'secret'")
        os.environ["PATH"] = os.pathsep.join([str(server.programs), os.environ["PATH"]])
        yield


def main() -> int:
    """Follow the page. Return 1 if a command fails or its output differs from the page, or else 0."""
    page, directory, *services = map(Path, sys.argv[1:])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)  # noqa: S607 - where the system has it
    home, logs = directory / "home", directory / "logs"
    for path in (home, logs):
        path.mkdir()
    reader = Reader(home, logs)
    with ExitStack() as stack:
        if services:
            stack.enter_context(_database())
        return _follow(page, reader)


def _follow(page: Path, reader: Reader) -> int:
    try:
        for step in steps(page.read_text(encoding="utf-8")):
            reader.do(step)
    except ScriptFailed as failure:
        reader.differences.append(str(failure))
    for difference in reader.differences:
        say(f"*** {difference}")
    return 1 if reader.differences else 0


if __name__ == "__main__":
    sys.exit(main())
