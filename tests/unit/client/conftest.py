"""Fixtures for the tests of the client: a worker with a REST API, and a runner of `kraal` commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kraal.cli.main import main
from kraal.client.rest import Rest
from kraal.core.errors import HINT
from tests.fakes.workers.connect import Connect, QuickClock, connect


@dataclass
class Kraal:
    """A runner of `kraal` commands against the worker, in virtual time."""

    connect: Connect
    clock: QuickClock
    env: dict[str, str | None] = field(default_factory=dict)

    def __call__(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run a command; a traceback always fails the test."""
        env = {"KRAAL_URL": self.connect.url, **self.env}
        result = CliRunner().invoke(main, arguments, input=stdin, env=env, prog_name="kraal")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        return result

    def out(self, *arguments: str, stdin: str | None = None) -> str:
        """Run a command that must succeed without errors on standard error; return its output."""
        result = self(*arguments, stdin=stdin)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    def error(self, *arguments: str, code: int = 1) -> str:
        """Run a command that must fail with one line and optionally a hint; return the line."""
        result = self(*arguments)
        first, *other_lines = result.stderr.splitlines()
        assert result.exit_code == code, result.output
        assert len(other_lines) <= 1, result.output
        assert all(line.startswith(HINT) and not first.startswith(HINT) for line in other_lines), (
            result.output
        )
        return first

    def hint(self, *arguments: str, code: int = 1) -> str:
        """Run a command that must fail with one line and a hint; return the hint."""
        result = self(*arguments)
        assert (result.exit_code, result.stderr.count("\n")) == (code, 2), result.output
        return result.stderr.splitlines()[1].removeprefix(HINT)


@pytest.fixture
def worker() -> Iterator[Connect]:
    with connect() as started_worker:
        yield started_worker


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> QuickClock:
    quick_clock = QuickClock()
    monkeypatch.setattr(Rest.__init__, "__kwdefaults__", {"clock": quick_clock})
    return quick_clock


@pytest.fixture
def kraal(worker: Connect, clock: QuickClock, monkeypatch: pytest.MonkeyPatch) -> Kraal:
    for name in ("KRAAL_USER", "KRAAL_PASSWORD", "KRAAL_CACERT"):
        monkeypatch.delenv(name, raising=False)
    return Kraal(worker, clock)


Files = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path) -> Files:
    """Return a function that writes a file and returns its path."""

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return str(path)

    return write
