"""`GET /connectors/{c}/logs`: the latest log lines of a connector on all workers that run it. Kraal's addition.

Each worker keeps only its own lines. The worker that receives the request merges the lines by time and returns one
position per worker in `next`. A client that continues from these positions misses no line, even if the clocks of the
workers differ.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.errors import BadRequest, NotFound
from kraal.core.ids import ConnectorName, Json, WorkerId
from kraal.core.log_levels import LEVELS, parse_level
from kraal.journal.log_lines import LINE_BYTES, LOGGER_BYTES
from kraal.journal.ring import truncate
from web.openapi import history as shapes
from web.openapi.operation import Operation, Query
from web.rendering import json_response
from web.requests.ask_workers import ask_workers, instance_workers, should_ask_workers
from web.requests.paths import connector_name, integer_in_range
from web.resource import endpoint, live_snapshot
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_MAX_LINES: Final = 1_000
_DEFAULT_LINES: Final = 200
MAX_BYTES: Final = 1024 * 1024
"""Maximum total size of the lines in a response, in bytes of UTF-8 before JSON escaping."""
_LINE_BYTES: Final = 300
"""Maximum size of a line without its message."""
_LIMIT_RANGE: Final = range(1, _MAX_LINES + 1)
_TASK_RANGE: Final = range(2**31)
_MAX_AFTER_LENGTH: Final = 20_000
"""Maximum length of `after` in characters."""
_POSITION_PATTERN: Final = "[0-9]{1,16}(@[!-+.-?A-~-]{1,300})?"
_AFTER: Final[dict[str, Json]] = {
    "type": "string",
    "maxLength": _MAX_AFTER_LENGTH,
    "pattern": f"^{_POSITION_PATTERN}(,{_POSITION_PATTERN})*$",
}
_POSITION: Final = re.compile(r"([0-9]{1,16})(?:@([^,@\s]{1,300}))?")

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Positions:
    """Ids of the last lines read, by worker."""

    by_worker: Mapping[str, int] = field(default_factory=dict)
    default: int = 0
    """Position for all other workers."""

    @staticmethod
    def parse(text: str) -> Positions:
        """Parse `ID@WORKER,…`, where an `ID` without a worker applies to all other workers. Raises BadRequest."""
        by_worker: dict[str, int] = {}
        default = 0
        for part in text.split(",") if len(text) <= _MAX_AFTER_LENGTH else [""]:
            match = _POSITION.fullmatch(part)
            if match is None:
                raise BadRequest(
                    f"Invalid query parameter `after`: '{text[:100]}'; expected `next` of a previous response or the "
                    "`id` of a log line."
                )
            if match[2] is None:
                default = int(match[1])
            else:
                by_worker[match[2]] = int(match[1])
        return Positions(by_worker, default)

    def position_on(self, worker: str) -> int:
        """Return the position for a worker."""
        return self.by_worker.get(worker, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """Filters in a request for log lines."""

    limit: int = _DEFAULT_LINES
    task: int | None = None
    level: str | None = None
    after: Positions | None = None
    """Position after which to start; None for the latest lines."""


@dataclass(frozen=True, slots=True)
class WorkerLines:
    """Lines of one worker, oldest first, and the number of older lines that were dropped."""

    lines: Sequence[Line] = ()
    dropped: int = 0


@endpoint(
    "GET",
    "/connectors/{connector}/logs",
    Operation(
        name="getConnectorLogs",
        tag="connectors",
        summary="List the latest log lines of a connector and its tasks on all workers that run them",
        description="Oldest first. With `after`, returns the first lines after a position; otherwise the latest lines.",
        query=(
            shapes.limit(_MAX_LINES, _DEFAULT_LINES),
            shapes.TASK,
            Query(
                name="level",
                description="Minimum level of the lines.",
                schema={"type": "string", "enum": [*LEVELS]},
            ),
            Query(
                name="after",
                description="The `next` of a previous response, or the `id` of a log line.",
                schema=_AFTER,
            ),
        ),
        responses={200: shapes.LOGS},
        errors=(400,),
    ),
)
async def _logs(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/logs: 404 if the connector does not exist and there are no lines."""
    name, log_query = connector_name(request), _log_query(request)
    snapshot = await live_snapshot(services)
    own_id = snapshot.worker_id
    lines_by_worker, silent = {own_id: _local_lines(services, name, log_query, own_id)}, list[WorkerId]()
    if should_ask_workers(services, request):
        other_workers = instance_workers(snapshot.status.statuses.get(name, ConnectorStatuses())) - {own_id}
        responses, silent_workers = await ask_workers(
            services, request, other_workers, _query(request), _parse_response
        )
        lines_by_worker.update(responses)
        silent = [*silent_workers]
    if name not in snapshot.config.connectors and not any(
        worker_lines.lines for worker_lines in lines_by_worker.values()
    ):
        raise NotFound(f"Connector {name} not found")
    return json_response({**merge_lines(lines_by_worker, log_query), "silent": silent})


def merge_lines(lines_by_worker: Mapping[WorkerId, WorkerLines], log_query: LogQuery) -> dict[str, Any]:
    """Merge the lines of several workers by time, within the limits of a response. Pure."""
    lines = [
        {**line, "worker_id": str(worker)}
        for worker, worker_lines in lines_by_worker.items()
        for line in worker_lines.lines
    ]
    lines.sort(key=lambda line: (line["id"], line["worker_id"]))
    positions = {str(worker): 0 for worker in lines_by_worker}
    if log_query.after is None:
        selected_lines = _first_lines(lines[::-1], log_query.limit)[::-1]
    else:
        selected_lines = _first_lines(lines, log_query.limit)
        positions = {worker: log_query.after.position_on(worker) for worker in positions} | dict(
            log_query.after.by_worker
        )
    # Without a position, lines older than the returned ones are never requested, so they count as read.
    for line in lines if log_query.after is None else selected_lines:
        positions[line["worker_id"]] = max(positions[line["worker_id"]], line["id"])
    return {
        "lines": selected_lines,
        "next": ",".join(f"{line_id}@{worker}" for worker, line_id in sorted(positions.items())),
        "dropped": sum(worker_lines.dropped for worker_lines in lines_by_worker.values()),
    }


def _first_lines(lines: Sequence[Line], limit: int) -> list[Line]:
    """Return the first lines, up to the limits of a response."""
    selected_lines: list[Line] = []
    size = 0
    for line in lines[:limit]:
        size += _LINE_BYTES + len(line["message"].encode("utf-8", "replace"))
        if size > MAX_BYTES:
            break
        selected_lines.append(line)
    return selected_lines


def _log_query(request: Request) -> LogQuery:
    level, after = request.query_params.get("level"), request.query_params.get("after")
    if level is not None and parse_level(level) is None:
        raise BadRequest(f"Invalid level '{level[:100]}'; expected one of {', '.join(LEVELS)}.")
    return LogQuery(
        limit=integer_in_range(request, "limit", _LIMIT_RANGE) or _DEFAULT_LINES,
        task=integer_in_range(request, "task", _TASK_RANGE),
        level=level,
        after=None if after is None else Positions.parse(after),
    )


def _query(request: Request) -> str:
    """Return the query for other workers, each of which selects its own position from `after`."""
    names = ("limit", "task", "level", "after")
    return urlencode({name: value for name in names if (value := request.query_params.get(name)) is not None})


def _local_lines(
    services: Services, name: ConnectorName, log_query: LogQuery, own_id: WorkerId
) -> WorkerLines:
    kept_lines = services.journal.lines.read(name)
    level = 0 if log_query.level is None else parse_level(log_query.level) or 0
    after = -1 if log_query.after is None else log_query.after.position_on(own_id)
    matching_lines = [
        line.to_json(own_id)
        for line in kept_lines.entries
        if line.level >= level and line.id > after and (log_query.task is None or line.task == log_query.task)
    ]
    selected_lines = (
        matching_lines[-log_query.limit :] if log_query.after is None else matching_lines[: log_query.limit]
    )
    return WorkerLines(selected_lines, kept_lines.dropped)


def _parse_response(body: object) -> WorkerLines | None:
    """Parse another worker's response; return None for a malformed response."""
    match body:
        case {"lines": [*parts], "dropped": int(dropped)}:
            lines = [*map(_parse_line, parts[:_MAX_LINES])]
            valid_lines = [line for line in lines if line is not None]
            return WorkerLines(valid_lines, dropped) if len(valid_lines) == len(lines) else None
        case _:
            return None


def _parse_line(part: object) -> Line | None:
    """Parse a line, ignoring unknown fields and truncating texts; return None for a malformed line."""
    match part:
        case {
            "id": int(line_id),
            "ms": int(ms),
            "worker_id": str(worker),
            "level": str(level),
            "logger": str(logger),
            "task": int() | None as task,
            "message": str(message),
        } if level in LEVELS:
            fields = {
                "logger": truncate(logger, LOGGER_BYTES),
                "task": task,
                "message": truncate(message, LINE_BYTES),
            }
            return {"id": line_id, "ms": ms, "worker_id": worker, "level": level, **fields}
        case _:
            return None


ENDPOINTS = (_logs,)
