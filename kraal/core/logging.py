"""Logging of a worker process to standard error, as text or one JSON object per line.

Each line names the worker and, if known, the group generation and the connector or task. Secrets are removed
(`kraal.core.secrets`). An actor's thread sets its subject at start (`about`); functions that it passes to the engine's
threads keep it (`with_subject`). The subject is a context variable, read only when a line is written.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from enum import Enum
from types import TracebackType

from typing_extensions import override

from kraal.core.errors import KraalError
from kraal.core.secrets import Secrets, secrets

_log = logging.getLogger(__name__)

about: ContextVar[str] = ContextVar("kraal_about", default="")
"""The name of the actor for which this thread works: `task numbers-0`, `connector numbers`, `herder`, …."""


class LogFormat(Enum):
    """Format of log lines."""

    TEXT = "text"
    JSON = "json"


class Who(logging.Filter):
    """Filter that adds worker and generation to every record; passes all."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = ""
        """The worker's id, once it is known."""
        self.generation: Callable[[], int] = int
        """Returns the group generation, or 0 without one. Any thread."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        record.worker = self.worker
        record.generation = self.generation()
        record.connector, record.task = subject(about.get())
        return True


who = Who()
"""The instance of this process."""


class Scrub(logging.Filter):
    """Filter that removes secrets from a record's message, hint, traceback and stack; passes all.

    The hint is that of the first error that the message or the traceback is about.
    """

    def __init__(self, known: Secrets = secrets) -> None:
        super().__init__()
        self._known = known

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.__dict__.get("scrubbed_by") is self._known:
            return True  # by another handler's filter
        record.scrubbed_by = self._known
        scrub = self._known.scrub
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - invalid arguments, which logging would print unchanged
            text = f"{record.msg} (its arguments do not fit)"
        if hint := _hint(record):
            record.hint = scrub(hint)
        record.msg, record.args = scrub(text), None
        if record.exc_info:
            record.exc_text = scrub(_TRACEBACKS.formatException(record.exc_info))
        if record.stack_info:
            record.stack_info = scrub(record.stack_info)
        return True


_TRACEBACKS = logging.Formatter()


def _hint(record: logging.LogRecord) -> str:
    """Return the first hint of the errors in a record, or the one that it has; empty without one."""
    known = str(record.__dict__.get("hint") or "")
    arguments = record.args if isinstance(record.args, tuple) else ()
    errors = (*arguments, record.exc_info[1] if record.exc_info else None)
    return next((each.hint for each in errors if isinstance(each, KraalError) and each.hint), known)


def subject(name: str) -> tuple[str, int | None]:
    """Return connector and task number of an actor's name; "" and None if it has none."""
    kind, _, instance = name.partition(" ")
    if kind == "connector":
        return instance, None
    if kind == "task":
        connector, _, number = instance.rpartition("-")
        if number.isdecimal():
            return connector, int(number)
    return "", None


def with_subject(function: Callable[[], None]) -> Callable[[], None]:
    """Wrap `function` so that its log lines on another thread keep this thread's subject."""
    name = about.get()

    def run() -> None:
        about.set(name)
        function()

    return run


@contextmanager
def working_for(name: str) -> Iterator[None]:
    """Give the log lines of this thread a subject, named as actors are, until the end of the block."""
    before = about.set(name)
    try:
        yield
    finally:
        about.reset(before)


class SubjectLock:
    """A reentrant lock whose holder's log lines have a subject, as has what the holder schedules on other threads.

    For state that any thread may change: those of Spark's session or of a job for several tasks have no subject.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()
        self._before: list[Token[str]] = []
        """Of each entry, what resets the holder's subject."""

    def __enter__(self) -> None:
        self._lock.acquire()
        self._before.append(about.set(self._name))

    def __exit__(self, *error: object) -> None:
        about.reset(self._before.pop())
        self._lock.release()


class TextLines(logging.Formatter):
    """`[time] LEVEL [worker g7 connector|task-0] message (logger)`; tracebacks follow on separate lines."""

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
    """One object per line: time, level, logger, thread, message, and known context; docs/operations.md has a table."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        worker, connector, task, generation = _context(record)
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if worker:
            fields["worker"] = worker
        if generation:
            fields["generation"] = generation
        if connector:
            fields["connector"] = connector
        if task is not None:
            fields["task"] = task
        if hint := record.__dict__.get("hint"):
            fields["hint"] = hint
        if record.exc_info:
            fields["exception"] = record.exc_text or self.formatException(record.exc_info)
        if record.stack_info:
            fields["stack"] = self.formatStack(record.stack_info)
        return json.dumps(fields, ensure_ascii=False)


def _context(record: logging.LogRecord) -> tuple[str, str, int | None, int]:
    """Return worker, connector, task and generation; empty for a record that did not pass `Who`."""
    own = record.__dict__
    return own.get("worker", ""), own.get("connector", ""), own.get("task"), own.get("generation", 0)


def log_to_stderr(style: LogFormat = LogFormat.TEXT, level: int = logging.INFO) -> None:
    """Log Kraal's packages from `level` on and others from WARNING on.

    kafka-python logs each failed connection attempt as ERROR, several per second while a broker is down, although its
    callers report the result. Its lines appear only at level DEBUG.

    In JSON, warnings and exceptions that nobody handles are lines of the log too.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if style is LogFormat.JSON else TextLines())
    handler.addFilter(who)
    handler.addFilter(Scrub())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("actors", "web", "kraal"):
        logging.getLogger(name).setLevel(level)
    logging.getLogger("kafka").setLevel(logging.WARNING if level <= logging.DEBUG else logging.CRITICAL)
    if style is LogFormat.JSON:
        logging.captureWarnings(True)  # noqa: FBT003 - of the library
        sys.excepthook = _log_unhandled
        threading.excepthook = lambda args: _log_unhandled(args.exc_type, args.exc_value, args.exc_traceback)


def _log_unhandled(
    kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    if issubclass(kind, SystemExit | KeyboardInterrupt):
        return
    _log.critical("Unhandled exception", exc_info=(kind, error or kind(), traceback))
