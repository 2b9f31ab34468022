"""Lines of the plugins' JVM keep their logger and level, and name their connector or task."""

from __future__ import annotations

import io
import logging
import threading
from types import SimpleNamespace

import pytest
from typing_extensions import override

from kraal.core.logging import Who
from kraal.java_plugins.jvm import Jvm

Logged = tuple[str, int, str, int | None, str]


class Lines(logging.Handler):
    """Notes lines with whom they are about."""

    def __init__(self) -> None:
        super().__init__(1)
        self.addFilter(Who())
        self.found: list[Logged] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        of = record.__dict__
        self.found.append((record.name, record.levelno, of["connector"], of["task"], record.getMessage()))


def logged(output: str, *, connector: str = "") -> list[Logged]:
    """Return logger, level, connector, task and text of each line that a process with this output causes."""
    handler = Lines()
    jvm = Jvm.__new__(Jvm)
    jvm.__dict__.update(
        process=SimpleNamespace(stdout=io.StringIO(output)),
        _listens=threading.Event(),
        _subject=f"connector {connector}" if connector else "",
        last="",
        _worker_file=None,
    )
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    try:
        reader = threading.Thread(target=jvm._read)  # noqa: SLF001 - the thread that a process has
        reader.start()
        reader.join(10)
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    return handler.found


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
def test_a_line_belongs_to_the_connector_or_task_of_its_context(
    context: str, connector: str, task: int | None
) -> None:
    text = "Polled | 3 records] |x"
    assert logged(f"WARN|io.debezium.Source|{context}|{text}\n") == [
        ("io.debezium.Source", logging.WARNING, connector, task, text)
    ]


def test_the_lines_of_a_trace_belong_to_the_line_before() -> None:
    lines = logged(
        "ERROR|a.B|[orders|task-0] |Failed\njava.lang.Error: x\n\tat y\nINFO|a.C||fine\nas before\n"
    )
    assert [(name, connector, task, text) for name, _, connector, task, text in lines] == [
        ("a.B", "orders", 0, "Failed"),
        ("a.B", "orders", 0, "java.lang.Error: x"),
        ("a.B", "orders", 0, "\tat y"),
        ("a.C", "", None, "fine"),
        ("a.C", "", None, "as before"),
    ]


def test_in_a_process_of_its_own_all_lines_are_the_connector_s() -> None:
    lines = logged("printed\nINFO|a.C||fine\nINFO|a.C|[mine|task-1] |of a task\n", connector="mine")
    assert [(connector, task) for _, _, connector, task, _ in lines] == [
        ("mine", None), ("mine", None), ("mine", 1),
    ]  # fmt: skip


def test_kafka_s_advice_that_is_followed_already_is_left_out() -> None:
    plugins = "org.apache.kafka.connect.runtime.isolation.Plugins"
    advice = "All plugins have ServiceLoader manifests, consider reconfiguring plugin.discovery=service_load"
    missing = "One or more plugins are missing ServiceLoader manifests"
    lines = logged(f"WARN|{plugins}||{advice}\nWARN|{plugins}||{missing}\nINFO|a.B||{advice}\n")
    assert [(name, text) for name, _, _, _, text in lines] == [(plugins, missing), ("a.B", advice)]
