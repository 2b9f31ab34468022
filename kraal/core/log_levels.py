"""Reads and changes the levels of Python's loggers at run time, with log4j's names.

Levels are OFF, FATAL, ERROR, WARN, INFO, DEBUG, TRACE and ALL. A Python level between two levels has the name of the
lowest named level that is logged. As in Connect, a namespace is any prefix of a name, regardless of dots: `kraal.s`
includes `kraal.scaffold` and `kraal.stores`. A logger without its own level inherits its parent's level. Former names
of modules still work. Source: Loggers (Kafka 4.4.0); KIP-495, KIP-976.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from kraal.core.renamed_loggers import current_name

log = logging.getLogger(__name__)

ROOT = "root"
TRACE, ALL, OFF = 5, 1, 2**31 - 1
_LEVELS = {
    "ALL": ALL,
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": OFF,
}
LEVELS = tuple(_LEVELS)
"""The names of all levels."""
logging.addLevelName(TRACE, "TRACE")


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's effective level, and the time of its last change (milliseconds since the epoch; None if unchanged)."""

    level: str
    last_modified: int | None


def parse_level(text: str) -> int | None:
    """Return Python's number for the name of a level, ignoring case; None if there is no such level."""
    return _LEVELS.get(text.strip().upper())


def level_name(number: int) -> str:
    """Return the name of the lowest level that a logger with this numeric level logs."""
    return next((name for name, threshold in _LEVELS.items() if number <= threshold), "OFF")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Loggers:
    """The loggers of a process. Thread-safe. Changes do not survive a restart."""

    def __init__(self, root: logging.Logger = logging.root, now_ms: Callable[[], int] = _now_ms) -> None:
        """Manage `root` and all loggers below it."""
        self._root = root
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._modified_ms: dict[str, int] = {}
        self._listeners: list[Callable[[str, str], None]] = []

    def listen(self, listener: Callable[[str, str], None]) -> None:
        """Call `listener` with the namespace and level of each later change. `listener` must not block."""
        self._listeners.append(listener)

    def level(self, name: str) -> LoggerLevel | None:
        """Return the level of a logger; None if the logger does not exist. `root` is case-insensitive."""
        with self._lock:
            if _is_root(name):
                return self._to_level(ROOT, self._root)
            name = current_name(name)
            logger = self._loggers_by_name().get(name)
            return None if logger is None else self._to_level(name, logger)

    def all_levels(self) -> dict[str, LoggerLevel]:
        """Return the levels of all loggers except those that are OFF, sorted by name."""
        with self._lock:
            return {
                name: self._to_level(name, logger)
                for name, logger in sorted(self._loggers_by_name().items())
                if level_name(logger.getEffectiveLevel()) != "OFF"
            }

    def set_level(self, namespace: str, level: str) -> list[str]:
        """Set the level of a namespace; return the sorted names of loggers whose effective level changed.

        Creates a logger with the namespace's name if there is none. The other loggers of the namespace inherit the
        level; those that already have a level are set to the new level. An unknown level is logged and ignored.
        """
        number = parse_level(level)
        if number is None:
            log.warning("Ignoring request to set invalid level '%s' for namespace %s", level, namespace)
            return []
        log.info("Setting level of namespace %s and children to %s", namespace, level)
        namespace = current_name(namespace)
        with self._lock:
            prefix = "" if _is_root(namespace) else namespace
            namespace_logger = self._root.manager.getLogger(namespace) if prefix else self._root
            loggers = self._loggers_by_name()
            affected_loggers = {
                name: logger for name, logger in loggers.items() if not prefix or name.startswith(prefix)
            }
            previous_levels = {name: logger.getEffectiveLevel() for name, logger in affected_loggers.items()}
            namespace_logger.setLevel(number)
            for logger in affected_loggers.values():
                if logger.level != logging.NOTSET:
                    logger.setLevel(number)
            now_ms = self._now_ms()
            changed_names = sorted(
                name
                for name, logger in affected_loggers.items()
                if logger.getEffectiveLevel() != previous_levels[name]
            )
            self._modified_ms.update(dict.fromkeys(changed_names, now_ms))
        for listener in self._listeners:
            listener(namespace, level_name(number))
        return changed_names

    def _loggers_by_name(self) -> dict[str, logging.Logger]:
        """Return all loggers by name, without placeholders."""
        entries = list(self._root.manager.loggerDict.items())
        loggers = {name: logger for name, logger in entries if isinstance(logger, logging.Logger)}
        return {**loggers, ROOT: self._root}

    def _to_level(self, name: str, logger: logging.Logger) -> LoggerLevel:
        return LoggerLevel(level_name(logger.getEffectiveLevel()), self._modified_ms.get(name))


def _is_root(name: str) -> bool:
    return name.lower() in {"", ROOT}
