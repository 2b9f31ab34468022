"""Tests for log lines and their context."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import override

from actors.runtime.mailbox import Address, Tell
from actors.runtime.system import Begin, ThreadSystem
from kraal.core.errors import KraalError
from kraal.core.logging import (
    ContextFilter,
    JsonFormatter,
    SecretsFilter,
    TextFormatter,
    bind_subject,
    log_subject,
    parse_subject,
)
from kraal.core.secrets import Secrets
from kraal.engine.thread_pool import Pool


@pytest.fixture
def log_records() -> Iterator[list[logging.LogRecord]]:
    """Collect the records of a separate logger with their context."""
    records: list[logging.LogRecord] = []

    class CollectingHandler(logging.Handler):
        @override
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler, logger = CollectingHandler(), logging.getLogger("kraal.tests.logs")
    context_filter = ContextFilter()
    context_filter.worker, context_filter.generation = "w1:8083", lambda: 7
    handler.addFilter(context_filter)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield records
    logger.removeHandler(handler)


LOGGER = logging.getLogger("kraal.tests.logs")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("task my-lines-12", ("my-lines", 12)),
        ("connector my-lines-12", ("my-lines-12", None)),
        ("connector two words", ("two words", None)),
        ("herder", ("", None)),
        ("config writer", ("", None)),
        ("task oddly", ("", None)),
        ("", ("", None)),
    ],
)
def test_subject_is_parsed_from_actor_name(name: str, expected: tuple[str, int | None]) -> None:
    assert parse_subject(name) == expected


class LogRequest(Tell):
    """A request to log a line."""


class LoggingActor:
    """An actor that logs on its own thread and on a thread pool."""

    def __init__(self, pool: Pool, done: threading.Event) -> None:
        self._pool = pool
        self._done = done

    def receive(self, message: Begin | LogRequest) -> None:
        if isinstance(message, LogRequest):
            LOGGER.info("here")
            self._pool.submit(self._log_on_pool)

    def _log_on_pool(self) -> None:
        LOGGER.info("there")
        self._done.set()


def test_lines_logged_by_actor_on_any_thread_have_its_subject(log_records: list[logging.LogRecord]) -> None:
    system, pool, done = ThreadSystem(), Pool(1, "test-pool"), threading.Event()
    address = Address("task numbers-3")
    system.spawn(address, lambda: LoggingActor(pool, done), lambda _: None)
    address.tell(LogRequest())
    assert done.wait(5)
    pool.submit(lambda: LOGGER.info("without an actor"))
    pool.close(5)
    system.close(5)
    contexts = [
        (record.getMessage(), record.__dict__["connector"], record.__dict__["task"]) for record in log_records
    ]
    assert contexts == [("here", "numbers", 3), ("there", "numbers", 3), ("without an actor", "", None)]


def test_text_format_contains_worker_generation_and_task(log_records: list[logging.LogRecord]) -> None:
    token = log_subject.set("task numbers-0")
    LOGGER.info("read %d lines", 3)
    log_subject.reset(token)
    LOGGER.info("and done")
    texts = [TextFormatter().format(record).split("] ", 1)[1] for record in log_records]
    assert texts == [
        "INFO [w1:8083 g7 numbers|task-0] read 3 lines (kraal.tests.logs)",
        "INFO [w1:8083 g7] and done (kraal.tests.logs)",
    ]


def test_json_format_is_one_line_with_traceback(log_records: list[logging.LogRecord]) -> None:
    run = bind_subject(_fail)
    token = log_subject.set("connector numbers")
    bind_subject(_fail)()
    log_subject.reset(token)
    run()
    log_subject.set("")
    texts = [JsonFormatter().format(record) for record in log_records]
    assert all("\n" not in text for text in texts)
    first_record, second_record = map(json.loads, texts)
    assert first_record["connector"] == "numbers"
    assert (first_record["worker"], first_record["generation"], first_record["level"]) == (
        "w1:8083",
        7,
        "ERROR",
    )
    assert first_record["message"] == "it failed: é"
    assert first_record["exception"].endswith("ValueError: two\nlines")
    assert "connector" not in second_record
    assert "task" not in second_record


def test_manual_lists_all_json_fields(log_records: list[logging.LogRecord]) -> None:
    token = log_subject.set("task numbers-0")
    try:
        raise KraalError("it", hint="Try again.")
    except KraalError:
        LOGGER.exception("with everything", stack_info=True)
    log_subject.reset(token)
    assert SecretsFilter().filter(log_records[0])
    manual = (Path(__file__).parents[3] / "docs/operations.md").read_text(encoding="utf-8")
    table = re.search(r"^\| Field \| Content \|$(.*?)\n\n", manual, re.DOTALL | re.MULTILINE)
    assert table is not None
    assert re.findall(r"^\| `(\w+)` \|", table[1], re.MULTILINE) == list(
        json.loads(JsonFormatter().format(log_records[0]))
    )


@pytest.mark.parametrize("filter_count", [1, 2])
def test_json_format_contains_hint_of_error(log_records: list[logging.LogRecord], filter_count: int) -> None:
    LOGGER.error(
        "%s failed: %s", "it", KraalError("no such jar", hint="Set the mirror's password hunter2hunter2.")
    )
    LOGGER.error("%s failed: %s", "it", KraalError("no such jar"))
    for record in log_records:
        for _ in range(filter_count):
            secrets = Secrets()
            secrets.add("hunter2hunter2")
            SecretsFilter(secrets).filter(record)
    first_record, second_record = (json.loads(JsonFormatter().format(record)) for record in log_records)
    assert first_record["message"] == second_record["message"] == "it failed: no such jar"
    assert first_record["hint"] == "Set the mirror's password [hidden]."
    assert "hint" not in second_record


CODE_WITH_UNHANDLED_EXCEPTIONS = """
import threading, warnings
from kraal.core.logging import LogFormat, log_to_stderr
log_to_stderr(LogFormat.JSON)
warnings.warn("old", UserWarning)
def fail():
    raise ValueError("in a thread")
thread = threading.Thread(target=fail)
thread.start()
thread.join()
raise ValueError("in main")
"""


def test_warnings_and_unhandled_exceptions_are_logged_as_json() -> None:
    result = subprocess.run(
        [sys.executable, "-c", CODE_WITH_UNHANDLED_EXCEPTIONS], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    records = [json.loads(line) for line in result.stderr.splitlines()]
    assert [record["level"] for record in records] == ["WARNING", "CRITICAL", "CRITICAL"]
    assert "UserWarning: old" in records[0]["message"]
    assert records[1]["exception"].endswith("ValueError: in a thread")
    assert records[2]["exception"].endswith("ValueError: in main")


def test_record_without_context_is_formatted() -> None:
    record = logging.LogRecord("kafka", logging.WARNING, "f", 1, "hm", (), None)
    assert "[worker] hm (kafka)" in TextFormatter().format(record)
    assert json.loads(JsonFormatter().format(record))["message"] == "hm"


def _fail() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        LOGGER.exception("it failed: %s", "é")


@pytest.mark.parametrize(("level", "is_logged"), [("INFO", False), ("DEBUG", True)])
def test_connection_attempts_are_logged_only_at_debug(level: str, *, is_logged: bool) -> None:
    code = f"""
import logging
from kraal.core.logging import LogFormat, log_to_stderr
log_to_stderr(LogFormat.TEXT, logging.{level})
logging.getLogger("kafka.net").error("connection refused")
logging.getLogger("kraal.some").info("this is ours")
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert ("connection refused" in output) is is_logged
    assert "this is ours" in output
