"""Tests that connectors' log lines are attributed, scrubbed and limited."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from contextvars import copy_context

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.core.ids import ConnectorName
from kraal.core.logging import SecretsFilter, log_subject
from kraal.core.secrets import Secrets, secrets
from kraal.journal.log_lines import LINE_BYTES, LogLine, LogLines

NAME = ConnectorName("orders")


class Log:
    """A separate logger, the lines that its handler collects, and the connectors passed to the listener."""

    def __init__(self, connector_limit: int = 100_000, total_limit: int = 1_000_000) -> None:
        self.notified_connectors: list[ConnectorName] = []
        self.lines = LogLines(connector_limit, total_limit, self.notified_connectors.append)
        self.logger = logging.Logger("kraal.connectors.file", logging.DEBUG)  # noqa: LOG001 - outside the hierarchy
        self.logger.addHandler(self.lines)

    def read(self, name: ConnectorName = NAME) -> tuple[LogLine, ...]:
        return self.lines.read(name).entries


@pytest.fixture
def log() -> Iterator[Log]:
    yield Log()
    secrets.clear()


def log_line(
    log: Log, subject: str, text: str, *args: object, level: int = logging.INFO, exc_info: bool = False
) -> None:
    """Log a line in the context of `subject`."""

    def run() -> None:
        log_subject.set(subject)
        log.logger.log(level, text, *args, exc_info=exc_info)

    copy_context().run(run)


def test_line_is_assigned_to_the_instance_of_its_thread(log: Log) -> None:
    log_line(log, "task orders-2", "read %d lines", 5)
    log_line(log, "connector orders", "found a file", level=logging.WARNING)
    log_line(log, "task other-1-0", "elsewhere", level=logging.ERROR)
    log_line(log, "herder", "lines without a connector are not kept")
    log_line(log, "", "nor are those without a subject")
    assert [(line.task, line.level, line.message) for line in log.read()] == [
        (2, logging.INFO, "read 5 lines"),
        (None, logging.WARNING, "found a file"),
    ]
    assert [line.message for line in log.read(ConnectorName("other-1"))] == ["elsewhere"]
    assert log.notified_connectors == ["orders", "orders", "other-1"]


def test_line_is_rendered_as_json(log: Log) -> None:
    log_line(log, "task orders-2", "careful", level=logging.WARNING)
    [line] = log.read()
    assert line.to_json("a:8083") == {
        "id": line.id, "ms": line.id // 1_000, "worker_id": "a:8083", "level": "WARN",
        "logger": "kraal.connectors.file", "task": 2, "message": "careful",
    }  # fmt: skip


def test_ids_increase_within_a_microsecond(log: Log) -> None:
    record = log.logger.makeRecord("x", logging.INFO, "f", 1, "same moment", (), None)
    context = copy_context()
    context.run(log_subject.set, "task orders-0")
    for _ in range(3):
        context.run(log.lines.handle, record)
    ids = [line.id for line in log.read()]
    assert ids == [ids[0], ids[0] + 1, ids[0] + 2]


def test_traceback_follows_the_message(log: Log) -> None:
    try:
        raise OSError("no disk")
    except OSError:
        log_line(log, "task orders-0", "Failed to write", exc_info=True)
    assert log.read()[0].message.startswith("Failed to write\nTraceback (most recent call last):\n")
    assert log.read()[0].message.endswith("OSError: no disk")


def test_secrets_are_removed_from_messages_arguments_and_tracebacks(log: Log) -> None:
    secrets.add("hunter2-hunter2")
    try:
        raise OSError("hunter2-hunter2 is wrong")
    except OSError:
        log_line(log, "task orders-0", "With %s", "hunter2-hunter2", exc_info=True)
    [line] = log.read()
    assert "hunter2" not in line.message
    assert line.message.startswith("With [hidden]\nTraceback")


def test_scrubbed_line_is_not_scrubbed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def scrub(_self: Secrets, text: str) -> str:
        calls.append(text)
        return text

    monkeypatch.setattr(Secrets, "scrub", scrub)
    log, other_handler = Log(), logging.StreamHandler(io.StringIO())
    other_handler.addFilter(SecretsFilter())
    log.logger.handlers.insert(0, other_handler)
    log_line(log, "task orders-0", "once")
    assert calls == ["once"]
    assert len(log.read()) == 1


def test_long_lines_are_truncated(log: Log) -> None:
    log_line(log, "task orders-0", "ü" * 100_000)
    [line] = log.read()
    assert len(line.message.encode()) <= LINE_BYTES
    assert line.message.endswith("…")


def test_invalid_arguments_do_not_raise(log: Log) -> None:
    log_line(log, "task orders-0", "%d lines", "many")
    assert log.read()[0].message == "%d lines (its arguments do not match)"


@given(st.lists(st.tuples(st.integers(0, 3), st.text(max_size=6_000)), max_size=30))
def test_lines_are_limited_in_bytes(entries: list[tuple[int, str]]) -> None:
    log = Log(8_000, 20_000)
    for number, text in entries:
        log_line(log, f"task c{number}-0", "%s", text)
    names = [ConnectorName(f"c{number}") for number in range(4)]
    assert all(sum(line.size for line in log.read(name)) <= 8_000 for name in names)
    assert sum(line.size for name in names for line in log.read(name)) <= 20_000
    assert sum(log.lines.read(name).dropped + len(log.read(name)) for name in names) == len(entries)


def test_listener_may_log_without_deadlock() -> None:
    """If the lock of `logging` were held, the second thread would deadlock."""
    log = Log()
    ended = threading.Event()

    def log_on_other_thread() -> None:
        log_line(log, "task second-0", "from a listener")
        ended.set()

    def listener(name: ConnectorName) -> None:
        if name == "orders":
            threading.Thread(target=log_on_other_thread, daemon=True).start()
            assert ended.wait(10)

    log.lines._listener = listener  # noqa: SLF001 - set at creation
    log_line(log, "task orders-0", "first")
    assert ended.is_set()
    assert [line.message for line in log.read(ConnectorName("second"))] == ["from a listener"]
