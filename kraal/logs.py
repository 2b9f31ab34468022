"""Logs of a worker process, to standard error: lines of text, or one JSON object a line.

Each line says which worker wrote it and, where that is known, the generation of its group and the connector or
task that it is about. No line holds a secret (`kraal.secrets`). An actor's thread says whom it works for when it
starts (`about`); what it hands to the engine's threads carries that along (`carried`). That is a context variable:
nothing is looked up before a line is written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import Enum

from typing_extensions import override

from kraal.secrets import Secrets, secrets

about: ContextVar[str] = ContextVar("kraal_about", default="")
"""The name of the actor for which this thread works: `task numbers-0`, `connector numbers`, `herder`, …."""


class LogFormat(Enum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"


class Who(logging.Filter):
    """Adds to every record what this process is; lets all pass."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = ""
        """The worker's id, once it is known."""
        self.generation: Callable[[], int] = int
        """Returns the generation of the group, 0 as long as there is none. Any thread."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        record.worker = self.worker
        record.generation = self.generation()
        record.connector, record.task = subject(about.get())
        return True


who = Who()
"""This process's."""


class Scrub(logging.Filter):
    """Takes secrets out of a record's message, traceback and stack; lets all pass."""

    def __init__(self, known: Secrets = secrets) -> None:
        super().__init__()
        self._known = known

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        scrub = self._known.scrub
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - arguments that do not fit; logging would print them as they are
            text = f"{record.msg} (its arguments do not fit)"
        record.msg, record.args = scrub(text), None
        if record.exc_info:
            record.exc_text = scrub(_TRACEBACKS.formatException(record.exc_info))
        if record.stack_info:
            record.stack_info = scrub(record.stack_info)
        return True


_TRACEBACKS = logging.Formatter()


def subject(name: str) -> tuple[str, int | None]:
    """Return the connector and the task number that an actor's name stands for; "" and None without."""
    kind, _, instance = name.partition(" ")
    if kind == "connector":
        return instance, None
    if kind == "task":
        connector, _, number = instance.rpartition("-")
        if number.isdecimal():
            return connector, int(number)
    return "", None


def carried(function: Callable[[], None]) -> Callable[[], None]:
    """Return `function` such that what it logs on another thread is about what this thread is about."""
    name = about.get()

    def run() -> None:
        about.set(name)
        function()

    return run


class TextLines(logging.Formatter):
    """`[time] LEVEL [worker g7 connector|task-0] message (logger)`; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(levelname)s [%(context)s] %(message)s (%(name)s)")

    @override
    def format(self, record: logging.LogRecord) -> str:
        worker, connector, task, generation = _context(record)
        parts = [worker or "worker"]
        if generation:
            parts.append(f"g{generation}")
        if connector:
            parts.append(f"{connector}|worker" if task is None else f"{connector}|task-{task}")
        record.context = " ".join(parts)
        return super().format(record)


class JsonLines(logging.Formatter):
    """One object a line: time, level, logger, thread, message, and what is known of the rest."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        worker, connector, task, generation = _context(record)
        said: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if worker:
            said["worker"] = worker
        if generation:
            said["generation"] = generation
        if connector:
            said["connector"] = connector
        if task is not None:
            said["task"] = task
        if record.exc_info:
            said["exception"] = record.exc_text or self.formatException(record.exc_info)
        if record.stack_info:
            said["stack"] = self.formatStack(record.stack_info)
        return json.dumps(said, ensure_ascii=False)


def _context(record: logging.LogRecord) -> tuple[str, str, int | None, int]:
    """Return worker, connector, task and generation; a record that passed no `Who` has none of them."""
    said = record.__dict__
    return said.get("worker", ""), said.get("connector", ""), said.get("task"), said.get("generation", 0)


def log_to_stderr(style: LogFormat = LogFormat.TEXT, level: int = logging.INFO) -> None:
    """Log our own packages from `level` on, others from WARNING on.

    kafka-python calls every attempt to connect an ERROR, several a second while a broker is away; what comes of
    them is said by those who asked. It is heard when we log at DEBUG.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if style is LogFormat.JSON else TextLines())
    handler.addFilter(who)
    handler.addFilter(Scrub())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("actors", "web", "kraal"):
        logging.getLogger(name).setLevel(level)
    logging.getLogger("kafka").setLevel(logging.WARNING if level <= logging.DEBUG else logging.CRITICAL)
