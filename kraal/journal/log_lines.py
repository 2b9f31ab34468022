"""Logging handler that keeps the latest log lines of connectors and tasks for `GET /connectors/{c}/logs`.

Lines of threads that do not work for a connector (`kraal.core.logging.log_subject`) are dropped. Secrets are removed,
as on standard error. Ids are microseconds since the epoch, incremented to be unique, so that they increase within a
process and are comparable between workers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from kraal.core.ids import ConnectorName, Json
from kraal.core.log_levels import level_name
from kraal.core.logging import SecretsFilter, log_subject, parse_subject
from kraal.journal.ring import ENTRY_BYTES, KeyedRings, RingContent, text_bytes, truncate

LINE_BYTES: Final = 4_096
"""Maximum size of a line including its traceback."""
LOGGER_BYTES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line with its traceback."""

    id: int
    ms: int
    level: int
    """Numeric level of Python's `logging`."""
    logger: str
    task: int | None
    """Task number; None for the connector instance."""
    message: str

    @property
    def size(self) -> int:
        """Memory size in bytes."""
        return ENTRY_BYTES + text_bytes(self.logger, self.message)

    def to_json(self, worker_id: str) -> dict[str, Json]:
        """Return the fields in REST order."""
        return {
            "id": self.id,
            "ms": self.ms,
            "worker_id": worker_id,
            "level": level_name(self.level),
            "logger": self.logger,
            "task": self.task,
            "message": self.message,
        }


class LogLines(logging.Handler):
    """The latest lines by connector. Thread-safe.

    Unlike other handlers, this handler holds no lock while it handles a line, except briefly the lock of its rings,
    because finalizers and listeners may also log.
    """

    def __init__(
        self, connector_limit: int, total_limit: int, listener: Callable[[ConnectorName], None]
    ) -> None:
        """Create the handler. The limits are the maximum sizes in bytes of one connector's and of all lines.

        `listener` is called after each line, on the logging thread and without locks of this handler held.
        """
        super().__init__()
        self._rings: KeyedRings[ConnectorName, LogLine] = KeyedRings(connector_limit, total_limit)
        self._listener = listener
        self._scrub = SecretsFilter()
        self._last_id = 0

    @override
    def handle(self, record: logging.LogRecord) -> bool:
        """Store a line if it belongs to a connector. Never raises."""
        connector, task = parse_subject(log_subject.get())
        if not connector or not self.filter(record):
            return False
        self._scrub.filter(record)
        name = ConnectorName(connector)
        message = truncate(_format_record(record), LINE_BYTES)
        logger = truncate(record.name, LOGGER_BYTES)
        level, created_us = record.levelno, int(record.created * 1_000_000)

        def make() -> tuple[LogLine, int]:
            self._last_id = max(self._last_id + 1, created_us)
            line = LogLine(
                id=self._last_id,
                ms=created_us // 1_000,
                level=level,
                logger=logger,
                task=task,
                message=message,
            )
            return line, line.size

        if self._rings.append(name, make):
            self._listener(name)
        return True

    def read(self, name: ConnectorName) -> RingContent[LogLine]:
        """Return a connector's lines, oldest first."""
        return self._rings.read(name)


def _format_record(record: logging.LogRecord) -> str:
    parts = (record.getMessage(), record.exc_text if record.exc_info else None, record.stack_info)
    return "\n".join(part for part in parts if part)
