"""Tests for the workers of `kraal mirror`: the leader configures the connectors, and all processes exit together."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kraal.cli.main import main
from kraal.cluster.views.snapshot import Published, Snapshot
from kraal.core.errors import BadRequest, RetryableConflict
from kraal.core.ids import WorkerId
from kraal.worker import mirror
from kraal.worker.mirror import Leadership, mirror_plugins, run_processes

if TYPE_CHECKING:
    from kraal.config.connector.files import ConnectorFile

LEADER = Snapshot(worker_id=WorkerId("w:1"), ready=True, live=True, is_leader=True)
CONFIGS = {"Source": {"name": "Source"}, "Heartbeat": {"name": "Heartbeat"}}


class Worker:
    """A worker that accepts connector configs, except those of the connectors in `refusals`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.published = Published(replace(LEADER, is_leader=False))
        self.refusals: dict[str, Exception] = {}
        self.applied_names: list[str] = []
        monkeypatch.setattr(mirror, "apply_file", self._apply)
        assembly: Any = SimpleNamespace(published=self.published)
        self._leadership = Leadership(assembly, CONFIGS)

    def _apply(self, _: object, file: ConnectorFile) -> None:
        if file.name in self.refusals:
            raise self.refusals[file.name]
        self.applied_names.append(file.name)

    def check_leadership(self, *, is_leader: bool) -> list[str]:
        """Check the leadership once, and return the names of the connectors that the check configured."""
        self.published.publish(replace(LEADER, is_leader=is_leader))
        self._leadership.check()
        configured_names, self.applied_names = self.applied_names, []
        return configured_names


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(monkeypatch)


def test_connectors_are_configured_once_by_each_new_leader(worker: Worker) -> None:
    assert [
        worker.check_leadership(is_leader=is_leader) for is_leader in (False, True, True, False, True)
    ] == [
        [],
        [*CONFIGS],
        [],
        [],
        [*CONFIGS],
    ]


def test_retriable_error_is_retried(worker: Worker) -> None:
    worker.refusals["Source"] = RetryableConflict("a rebalance")
    assert worker.check_leadership(is_leader=True) == ["Heartbeat"]
    del worker.refusals["Source"]
    assert worker.check_leadership(is_leader=True) == [*CONFIGS]
    assert worker.check_leadership(is_leader=True) == []


def test_bad_request_is_logged_and_not_retried(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    worker.refusals["Source"] = BadRequest("topics: no")
    assert worker.check_leadership(is_leader=True) == ["Heartbeat"]
    assert "Failed to configure connector Source: topics: no" in caplog.text
    assert worker.check_leadership(is_leader=True) == []


def test_mirror_maker_jars_form_one_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = [tmp_path / "mirror-1.jar", tmp_path / "client-1.jar"]
    for jar in jars:
        jar.write_text(jar.name)
    monkeypatch.setenv("KRAAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mirror, "ensure", lambda _: jars)
    plugin_path = mirror_plugins()
    assert mirror_plugins() == plugin_path
    files = [path for path in plugin_path.rglob("*") if path.is_file()]
    assert {path.parent for path in files} == {plugin_path / "connect-mirror"}
    assert sorted(path.name for path in files) == ["client-1.jar", "mirror-1.jar"]


@pytest.fixture
def _restore_signal_handlers() -> Iterator[None]:
    handlers_before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers_before.items():
        signal.signal(number, handler)


WAIT_FOR_SIGTERM = (
    "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); {}; signal.pause()"
)


def python_command(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.usefixtures("_restore_signal_handlers")
def test_all_processes_stop_after_the_first_exit(tmp_path: Path) -> None:
    fifo = tmp_path / "ready"
    os.mkfifo(fifo)
    waiting_command = python_command(WAIT_FOR_SIGTERM.format(f"open({str(fifo)!r}, 'w').write('x')"))
    failing_command = python_command(f"open({str(fifo)!r}).read(); raise SystemExit(4)")
    assert run_processes([waiting_command, failing_command]) == 4


@pytest.mark.usefixtures("_restore_signal_handlers")
def test_signal_is_forwarded_and_clean_exit_is_success() -> None:
    send_sigint = f"import os; os.kill({os.getpid()}, signal.SIGINT)"
    assert run_processes([python_command(WAIT_FOR_SIGTERM.format(send_sigint))]) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["east"], "Unexpected argument 'east'; target clusters follow --clusters."),
        (["--clusters", "a", "--flow", "a->b"], "--flow cannot be combined with --clusters."),
        (["--clusters", "a", "z"], "Unknown cluster 'z'; expected one or more of a, b."),
        (["--flow", "a->z"], "Unknown flow 'a->z'; expected one of a->b, b->a."),
    ],
)
def test_invalid_arguments_are_reported(
    arguments: list[str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kraal.cli.start_errors.log_to_stderr", lambda _: None)
    file = tmp_path / "mm2.properties"
    file.write_text("clusters=a,b\n")
    result = CliRunner().invoke(main, ["mirror", str(file), *arguments])
    assert result.exit_code in {1, 2}
    assert error in result.stderr
