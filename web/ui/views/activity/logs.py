"""Log lines of a connector, and the loggers that write them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.ids import Json
from kraal.core.printable import format_count
from web.ui.views.copy_as import Request
from web.ui.views.json_values import get_integer, mapping, maps, text, texts

LEVELS: Final = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
"""Levels that the page can filter by, most detailed first."""
SETTABLE_LEVELS: Final = (*LEVELS[:-1], "OFF")
SCOPES: Final = ("worker", "cluster")
MAX_LINES: Final = 500
_RANK: Final = {level: rank for rank, level in enumerate(LEVELS)}
_ALIASES: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_MAX_LOGGERS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Log line, possibly followed by a stack trace."""

    id: int
    ms: int | None
    worker: str
    level: str
    logger: str
    task: int | None
    """Task number; None for the connector instance."""
    message: str

    @property
    def tone(self) -> str:
        """Severity for styling: `error`, `warn`, `info` or `fine`."""
        rank = _RANK.get(self.level, _RANK["INFO"])
        return "error" if rank >= _RANK["ERROR"] else ("fine", "fine", "info", "warn")[rank]


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Content of the logs page, newest lines first."""

    lines: Sequence[Line]
    dropped: int
    """Number of older lines that were dropped."""
    silent_workers: Sequence[str]
    """Workers that did not respond."""
    has_more: bool
    """Whether there may be older lines."""


@dataclass(frozen=True, slots=True)
class Logger:
    """A logger and its level, which is empty if inherited."""

    name: str
    level: str


def parse_level(text: str) -> str:
    """Parse a level in a query; return an empty string for all levels and for an unknown level."""
    level = _ALIASES.get(text.upper(), text.upper())
    return level if level in LEVELS else ""


def filter_log(response: object, *, level: str = "", task: int | None = None, query: str = "") -> Log:
    """Parse `GET …/logs`, and filter its lines by minimum level, task and text."""
    content = mapping(response)
    lines = [_parse_line(line) for line in maps(content.get("lines"))]
    min_rank = _RANK.get(level, 0)
    text_query = query.lower()
    matching_lines = [
        line
        for line in lines
        if _RANK.get(line.level, min_rank) >= min_rank
        and (task is None or line.task == task)
        and (not text_query or text_query in line.message.lower() or text_query in line.logger.lower())
    ]
    matching_lines.sort(key=lambda line: (line.ms or 0, line.id), reverse=True)
    return Log(
        lines=matching_lines[:MAX_LINES],
        dropped=get_integer(content, "dropped") or 0,
        silent_workers=texts(content.get("silent")),
        has_more=len(lines) >= MAX_LINES,
    )


def plugin_loggers(response: object, plugin: str, lines: Iterable[Line]) -> Sequence[Logger]:
    """Return the loggers of a connector's plugin and of its log lines, with their levels.

    `response` is the response to `GET /admin/loggers`; `plugin` is the connector's class or alias.
    """
    levels = {name: text(mapping(level), "level") for name, level in mapping(response).items()}
    package = plugin.rpartition(".")[0]
    names = dict.fromkeys([package] if package else [])
    names.update(dict.fromkeys(name for name in sorted(levels) if package and _is_in_package(name, package)))
    names.update(dict.fromkeys(line.logger for line in lines if line.logger))
    return [Logger(name, _effective_level(name, levels)) for name in names][:_MAX_LOGGERS]


def level_request(logger: str, level: str, scope: str) -> Request:
    """Return the request that sets a level. Raises ValueError with a message for the user."""
    if not logger.strip():
        raise ValueError("Enter the name of a logger.")
    if level not in SETTABLE_LEVELS:
        raise ValueError(f"Unknown level {level!r}; valid levels are {', '.join(SETTABLE_LEVELS)}.")
    if scope not in SCOPES:
        raise ValueError(f"Unknown scope {scope!r}; valid scopes are {', '.join(SCOPES)}.")
    return Request(
        method="PUT",
        segments=("admin", "loggers", logger.strip()),
        query=(("scope", scope),),
        body={"level": level},
    )


def level_result(level: str, scope: str, worker: str, body: Json) -> str:
    """Describe the result of setting a level; `worker` is the worker that received the request."""
    if scope == "cluster":
        return f"will log at {level} on all workers"
    number = len(body) if isinstance(body, list) else 0
    children = f", with {format_count(number - 1, 'child logger')}" if number > 1 else ""
    return f"logs at {level} on {worker}{children}"


def _parse_line(content: Mapping[str, Any]) -> Line:
    level = text(content, "level").upper()
    return Line(
        id=get_integer(content, "id") or 0,
        ms=get_integer(content, "ms"),
        worker=text(content, "worker_id"),
        level=_ALIASES.get(level, level),
        logger=text(content, "logger"),
        task=get_integer(content, "task"),
        message=text(content, "message"),
    )


def _is_in_package(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _effective_level(name: str, levels: Mapping[str, str]) -> str:
    """Return the effective level of a logger; empty if unknown."""
    while name:
        if levels.get(name):
            return levels[name]
        name = name.rpartition(".")[0]
    return levels.get("root", "")
