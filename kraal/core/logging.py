"""Logging of a worker process to standard error, as text or one JSON object per line.

Each line contains the worker and, if they are known, the group generation and the connector or task. Secrets are
removed (`kraal.core.secrets`). An actor's thread sets its subject when the thread starts (`log_subject`). Functions
that are passed to the engine's threads keep the subject (`bind_subject`). The subject is a context variable, read only
when a line is logged.
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

log_subject: ContextVar[str] = ContextVar("kraal_log_subject", default="")
"""The name of the actor for which this thread works, such as `task numbers-0`, `connector numbers` or `herder`."""


class LogFormat(Enum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


class ContextFilter(logging.Filter):
    """A filter that adds the worker, generation, connector and task to every record; rejects no records."""

    def __init__(self) -> None:
        super().__init__()
        self.worker = ""
        """The worker's id; empty until it is known."""
        self.generation: Callable[[], int] = int
        """Returns the group generation, or 0 if there is none. Thread-safe."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        record.worker = self.worker
        record.generation = self.generation()
        record.connector, record.task = parse_subject(log_subject.get())
        return True


context_filter = ContextFilter()
"""The filter of this process."""


class SecretsFilter(logging.Filter):
    """A filter that removes secrets from a record's message, hint, traceback and stack; rejects no records.

    Sets the record's hint to that of the first error with a hint in the record's arguments or traceback, if any.
    """

    def __init__(self, secrets_: Secrets = secrets) -> None:
        super().__init__()
        self._secrets = secrets_

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.__dict__.get("scrubbed_by") is self._secrets:
            return True  # already scrubbed by another handler's filter
        record.scrubbed_by = self._secrets
        scrub = self._secrets.scrub
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - invalid arguments, which logging would print without scrubbing
            text = f"{record.msg} (its arguments do not match)"
        if hint := _find_hint(record):
            record.hint = scrub(hint)
        record.msg, record.args = scrub(text), None
        if record.exc_info:
            record.exc_text = scrub(_TRACEBACK_FORMATTER.formatException(record.exc_info))
        if record.stack_info:
            record.stack_info = scrub(record.stack_info)
        return True


_TRACEBACK_FORMATTER = logging.Formatter()


def _find_hint(record: logging.LogRecord) -> str:
    """Return the first hint of the errors in a record, or the record's own hint; empty if there is none."""
    own_hint = str(record.__dict__.get("hint") or "")
    arguments = record.args if isinstance(record.args, tuple) else ()
    errors = (*arguments, record.exc_info[1] if record.exc_info else None)
    return next((error.hint for error in errors if isinstance(error, KraalError) and error.hint), own_hint)


def parse_subject(name: str) -> tuple[str, int | None]:
    """Return the connector and task number in the name of an actor; "" and None if there are none."""
    kind, _, instance = name.partition(" ")
    if kind == "connector":
        return instance, None
    if kind == "task":
        connector, _, number = instance.rpartition("-")
        if number.isdecimal():
            return connector, int(number)
    return "", None


def bind_subject(function: Callable[[], None]) -> Callable[[], None]:
    """Wrap `function` so that its log lines on another thread have this thread's subject."""
    name = log_subject.get()

    def run() -> None:
        log_subject.set(name)
        function()

    return run


@contextmanager
def use_subject(name: str) -> Iterator[None]:
    """Set the subject of this thread's log lines to the name of an actor until the end of the block."""
    token = log_subject.set(name)
    try:
        yield
    finally:
        log_subject.reset(token)


class SubjectLock:
    """A reentrant lock that sets the subject of its holder's log lines, also in functions that the holder binds.

    Protects state that is changed by threads without a subject, such as the threads of the Spark session.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()
        self._tokens: list[Token[str]] = []
        """For each acquisition, the token that resets the holder's subject."""

    def __enter__(self) -> None:
        self._lock.acquire()
        self._tokens.append(log_subject.set(self._name))

    def __exit__(self, *error: object) -> None:
        log_subject.reset(self._tokens.pop())
        self._lock.release()


class TextFormatter(logging.Formatter):
    """A formatter for `[time] LEVEL [worker g7 connector|task-0] message (logger)`, followed by any traceback."""

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


class JsonFormatter(logging.Formatter):
    """A formatter for one JSON object per line; docs/operations.md describes its fields."""

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
    """Return the worker, connector, task and generation; "", "", None and 0 if `ContextFilter` did not set them."""
    fields = record.__dict__
    return (
        fields.get("worker", ""),
        fields.get("connector", ""),
        fields.get("task"),
        fields.get("generation", 0),
    )


def log_to_stderr(log_format: LogFormat = LogFormat.TEXT, level: int = logging.INFO) -> None:
    """Log Kraal's packages at `level` and other packages at WARNING.

    kafka-python logs each failed connection attempt as ERROR, several per second while a broker is down, although its
    callers report the result. These errors are therefore logged only if `level` is DEBUG.

    In JSON format, Python warnings and unhandled exceptions are also logged.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    handler.addFilter(context_filter)
    handler.addFilter(SecretsFilter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("actors", "web", "kraal"):
        logging.getLogger(name).setLevel(level)
    logging.getLogger("kafka").setLevel(logging.WARNING if level <= logging.DEBUG else logging.CRITICAL)
    if log_format is LogFormat.JSON:
        logging.captureWarnings(True)  # noqa: FBT003 - the library's signature
        sys.excepthook = _log_unhandled
        threading.excepthook = lambda args: _log_unhandled(args.exc_type, args.exc_value, args.exc_traceback)


def _log_unhandled(
    kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    if issubclass(kind, SystemExit | KeyboardInterrupt):
        return
    _log.critical("Unhandled exception", exc_info=(kind, error or kind(), traceback))
