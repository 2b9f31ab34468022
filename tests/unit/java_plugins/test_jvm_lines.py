"""Tests that log lines of the plugins' JVM keep their logger and level and name their connector or task."""

from __future__ import annotations

import io
import json
import logging
import threading
from types import SimpleNamespace

import pytest
from typing_extensions import override

from kraal.core.logging import ContextFilter
from kraal.java_plugins.jvm import Jvm

LogEntry = tuple[str, int, str, int | None, str]


READER = "jvm-lines-reader"
"""Name of the threads that read the lines."""


class RecordingHandler(logging.Handler):
    """A log handler that records the lines of the reader threads with their connector and task."""

    def __init__(self) -> None:
        super().__init__(1)
        self.addFilter(ContextFilter())
        self.records: list[LogEntry] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        if record.threadName != READER:  # other threads log too, such as those of a Spark session
            return
        fields = record.__dict__
        self.records.append(
            (record.name, record.levelno, fields["connector"], fields["task"], record.getMessage())
        )


def line(level: str, logger: str, context: str, text: str) -> str:
    """Return a line in the format of the process's log."""
    return json.dumps([level, logger, context, f"{text}\n"]) + "\n"


def log_lines(log: str, *, output: str = "", connector: str = "") -> list[LogEntry]:
    """Return the lines that are logged for a process with this log and standard output."""
    handler = RecordingHandler()
    jvm = Jvm.__new__(Jvm)
    jvm.__dict__.update(
        process=SimpleNamespace(stdout=io.StringIO(output), stderr=io.StringIO(log)),
        _is_listening=threading.Event(),
        _subject=f"connector {connector}" if connector else "",
        last_line="",
        _worker_file=None,
    )
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    try:
        for read_stream in (jvm._read_log, jvm._read_output):  # noqa: SLF001 - the functions of the process's threads
            reader = threading.Thread(target=read_stream, name=READER)
            reader.start()
            reader.join(10)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return handler.records


@pytest.mark.parametrize(
    ("context", "connector", "task"),
    [
        ("", "", None),
        ("[orders|task-3] ", "orders", 3),
        ("[orders|worker] ", "orders", None),
        ("[orders|task-12|offsets] ", "orders", 12),
        ("[orders|validate] ", "orders", None),
        ("[or|ders-1|task-0] ", "or|ders-1", 0),
        ("[a b|worker] ", "a b", None),
    ],
)
def test_line_is_attributed_to_the_connector_or_task_of_its_context(
    context: str, connector: str, task: int | None
) -> None:
    text = "Polled | 3 records] |x"
    assert log_lines(line("WARN", "io.debezium.Source", context, text)) == [
        ("io.debezium.Source", logging.WARNING, connector, task, text)
    ]


def test_stack_trace_lines_are_attributed_to_their_task() -> None:
    trace = line("ERROR", "a.B", "[orders|task-0] ", "Failed\njava.lang.Error: x\n\tat y")
    assert log_lines(trace + line("INFO", "a.C", "", "fine")) == [
        ("a.B", logging.ERROR, "orders", 0, "Failed"),
        ("a.B", logging.ERROR, "orders", 0, "java.lang.Error: x"),
        ("a.B", logging.ERROR, "orders", 0, "\tat y"),
        ("a.C", logging.INFO, "", None, "fine"),
    ]


@pytest.mark.parametrize("separator", ["\n", "\r", "\r\n", "\u2028", "\x85", "\x0b", "\x1e"])
def test_record_text_cannot_forge_lines_of_another_connector(separator: str) -> None:
    forged_line = line("ERROR", "x.Y", "[other|task-0] ", "stolen").rstrip()
    lines = log_lines(line("WARN", "a.B", "[orders|task-0] ", f"Bad record: a{separator}{forged_line}"))
    assert lines == [
        ("a.B", logging.WARNING, "orders", 0, "Bad record: a"),
        ("a.B", logging.WARNING, "orders", 0, forged_line),
    ]


def test_standard_output_is_not_attributed_to_a_connector() -> None:
    printed_line = line("ERROR", "x.Y", "[other|task-0] ", "stolen")
    jvm = "kraal.java_plugins.jvm"
    assert log_lines(line("ERROR", "a.B", "[orders|task-0] ", "Failed"), output=f"printed\n{printed_line}")[
        1:
    ] == [
        (jvm, logging.INFO, "", None, "printed"),
        (jvm, logging.INFO, "", None, printed_line.rstrip()),
    ]


@pytest.mark.parametrize("text", ["warning: of Java", "[1, 2, 3, 4]", '["INFO", "a", "b"]', "{}", "7"])
def test_raw_jvm_output_is_not_attributed_to_a_connector(text: str) -> None:
    lines = log_lines(line("ERROR", "a.B", "[orders|task-0] ", "Failed") + f"{text}\n")
    assert lines[1:] == [("kraal.java_plugins.jvm", logging.INFO, "", None, text)]


def test_all_lines_of_a_dedicated_process_are_attributed_to_its_connector() -> None:
    log = line("INFO", "a.C", "", "fine") + line("INFO", "a.C", "[mine|task-1] ", "of a task")
    lines = log_lines(log, output="printed\n", connector="mine")
    assert [(connector, task) for _, _, connector, task, _ in lines] == [
        ("mine", None), ("mine", 1), ("mine", None),
    ]  # fmt: skip


def test_plugin_discovery_suggestion_is_not_logged() -> None:
    plugins = "org.apache.kafka.connect.runtime.isolation.Plugins"
    advice = "All plugins have ServiceLoader manifests, consider reconfiguring plugin.discovery=service_load"
    missing_manifests = "One or more plugins are missing ServiceLoader manifests"
    log = [
        line("WARN", plugins, "", advice),
        line("WARN", plugins, "", missing_manifests),
        line("INFO", "a.B", "", advice),
    ]
    assert [(name, text) for name, _, _, _, text in log_lines("".join(log))] == [
        (plugins, missing_manifests), ("a.B", advice),
    ]  # fmt: skip
