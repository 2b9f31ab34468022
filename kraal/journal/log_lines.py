"""Log lines of connectors and tasks, for `GET /connectors/{c}/logs`: a logging handler that keeps the latest ones.

Lines whose thread works for no connector (`kraal.core.logging.about`) are dropped. Secrets are removed as from the
lines on standard error. Ids are microseconds since the epoch, counted up where several lines have the same: they rise
in a process, and are close to those of other workers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from typing_extensions import override

from kraal.core.ids import ConnectorName, Json
from kraal.core.log_levels import level_name
from kraal.core.logging import Scrub, about, subject
from kraal.journal.ring import ENTRY_BYTES, KeyedRings, RingContent, cut, text_bytes

LINE_BYTES: Final = 4_096
"""Maximum size of a line, its traceback included."""
LOGGER_BYTES: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line, with the traceback that follows it."""

    id: int
    ms: int
    level: int
    """Python's number."""
    logger: str
    task: int | None
    """None: a line of the connector's own instance."""
    message: str

    @property
    def size(self) -> int:
        """Memory size in bytes."""
        return ENTRY_BYTES + text_bytes(self.logger, self.message)

    def to_json(self, worker_id: str) -> dict[str, Json]:
        """Return its fields in the order in which REST shows them."""
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
    """The latest lines by connector. Any thread.

    Unlike other handlers it holds no lock while it handles a line, except briefly that of its rings: it may be
    called while a finalizer or a listener logs.
    """

    def __init__(self, each: int, total: int, listener: Callable[[ConnectorName], None]) -> None:
        """`each`, `total`: maximum size of a connector's lines and of all, in bytes.

        `listener` is called after each line, on the thread that logs and outside of all locks of this handler.
        """
        super().__init__()
        self._rings: KeyedRings[ConnectorName, LogLine] = KeyedRings(each, total)
        self._listener = listener
        self._scrub = Scrub()
        self._last_id = 0

    @override
    def handle(self, record: logging.LogRecord) -> bool:
        """Keep a line if it belongs to a connector; never raises."""
        connector, task = subject(about.get())
        if not connector or not self.filter(record):
            return False
        self._scrub.filter(record)
        name = ConnectorName(connector)
        message = cut(_text(record), LINE_BYTES)
        logger = cut(record.name, LOGGER_BYTES)
        level, micros = record.levelno, int(record.created * 1_000_000)

        def make() -> tuple[LogLine, int]:
            self._last_id = max(self._last_id + 1, micros)
            line = LogLine(
                id=self._last_id, ms=micros // 1_000, level=level, logger=logger, task=task, message=message
            )
            return line, line.size

        if self._rings.append(name, make):
            self._listener(name)
        return True

    def read(self, name: ConnectorName) -> RingContent[LogLine]:
        """Return a connector's lines, oldest first."""
        return self._rings.read(name)


def _text(record: logging.LogRecord) -> str:
    parts = (record.getMessage(), record.exc_text if record.exc_info else None, record.stack_info)
    return "\n".join(part for part in parts if part)
