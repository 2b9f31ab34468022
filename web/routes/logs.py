"""`GET /connectors/{c}/logs`: the latest log lines of a connector, of all workers that run it. Kraal's own.

Each worker has its own lines. The worker that is asked merges them by time, and returns in `next` a position on each
worker, so that a reader who goes on from there misses no line, whatever the clocks of the workers say.
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
from kraal.journal.texts import cut
from web.openapi import history as shapes
from web.openapi.operation import Operation, Query
from web.rendering import json_answer
from web.requests.ask_workers import ask_workers, asks_others, workers_of
from web.requests.paths import connector_of, number_in
from web.resource import endpoint, live_snapshot
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_MOST: Final = 1_000
_DEFAULT: Final = 200
MAX_BYTES: Final = 1024 * 1024
"""Maximum size of the lines of an answer in bytes of UTF-8, before JSON's escapes."""
_LINE_BYTES: Final = 300
"""Size of a line without its message, at most."""
_LIMITS: Final = range(1, _MOST + 1)
_TASKS: Final = range(2**31)
_LONGEST: Final = 20_000
"""Maximum length of `after` in characters."""
_ONE: Final = "[0-9]{1,16}(@[!-+.-?A-~-]{1,300})?"
_AFTER: Final[dict[str, Json]] = {"type": "string", "maxLength": _LONGEST, "pattern": f"^{_ONE}(,{_ONE})*$"}
_POSITION: Final = re.compile(r"([0-9]{1,16})(?:@([^,@\s]{1,300}))?")

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Positions:
    """The last lines that a reader has seen, by worker."""

    by_worker: Mapping[str, int] = field(default_factory=dict)
    otherwise: int = 0
    """On all other workers."""

    @staticmethod
    def parse(text: str) -> Positions:
        """Parse `ID@WORKER,…`, where an `ID` alone is for all other workers. Raises BadRequest."""
        by_worker: dict[str, int] = {}
        otherwise = 0
        for part in text.split(",") if len(text) <= _LONGEST else [""]:
            found = _POSITION.fullmatch(part)
            if found is None:
                raise BadRequest(
                    f"Invalid after '{text[:100]}'; expected `next` of an earlier answer, or the `id` of a line."
                )
            if found[2] is None:
                otherwise = int(found[1])
            else:
                by_worker[found[2]] = int(found[1])
        return Positions(by_worker, otherwise)

    def on(self, worker: str) -> int:
        """Return the position on a worker."""
        return self.by_worker.get(worker, self.otherwise)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which lines are asked for."""

    limit: int = _DEFAULT
    task: int | None = None
    level: str | None = None
    after: Positions | None = None
    """None: the latest lines."""


@dataclass(frozen=True, slots=True)
class Found:
    """Lines of one worker, oldest first, and the number of older ones that it has no more."""

    lines: Sequence[Line] = ()
    dropped: int = 0


@endpoint(
    "GET",
    "/connectors/{connector}/logs",
    Operation(
        name="getConnectorLogs",
        tag="connectors",
        summary="List the latest log lines of a connector and its tasks, of all workers that run them",
        about="Oldest first: the latest lines, or with `after` the first ones after a position.",
        query=(
            shapes.limit(_MOST, _DEFAULT),
            shapes.TASK,
            Query(
                name="level",
                about="Lowest level of the lines.",
                schema={"type": "string", "enum": [*LEVELS]},
            ),
            Query(
                name="after", about="The `next` of an earlier answer, or the `id` of a line.", schema=_AFTER
            ),
        ),
        answers={200: shapes.LOGS},
        errors=(400,),
    ),
)
async def _logs(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/logs: 404 if the connector does not exist and there are no lines."""
    name, asked = connector_of(request), _parse(request)
    snapshot = await live_snapshot(services)
    me = snapshot.worker_id
    found, silent = {me: _own(services, name, asked, me)}, list[WorkerId]()
    if asks_others(services, request):
        others = workers_of(snapshot.status.statuses.get(name, ConnectorStatuses())) - {me}
        answers, missing = await ask_workers(services, request, others, _query(request), _theirs)
        found.update(answers)
        silent = [*missing]
    if name not in snapshot.config.connectors and not any(each.lines for each in found.values()):
        raise NotFound(f"Connector {name} not found")
    return json_answer({**merged(found, asked), "silent": silent})


def merged(found: Mapping[WorkerId, Found], asked: Asked) -> dict[str, Any]:
    """Merge the lines of several workers by time, within the limits of an answer. Pure."""
    lines = [{**line, "worker_id": str(worker)} for worker, each in found.items() for line in each.lines]
    lines.sort(key=lambda line: (line["id"], line["worker_id"]))
    positions = {str(worker): 0 for worker in found}
    if asked.after is None:
        shown = _first(lines[::-1], asked.limit)[::-1]
    else:
        shown = _first(lines, asked.limit)
        positions = {worker: asked.after.on(worker) for worker in positions} | dict(asked.after.by_worker)
    # Without a position, lines older than those shown are never asked for, so they count as seen.
    for line in lines if asked.after is None else shown:
        positions[line["worker_id"]] = max(positions[line["worker_id"]], line["id"])
    return {
        "lines": shown,
        "next": ",".join(f"{at}@{worker}" for worker, at in sorted(positions.items())),
        "dropped": sum(each.dropped for each in found.values()),
    }


def _first(lines: Sequence[Line], limit: int) -> list[Line]:
    """Return the first lines within the limits of an answer."""
    shown: list[Line] = []
    size = 0
    for line in lines[:limit]:
        size += _LINE_BYTES + len(line["message"].encode("utf-8", "replace"))
        if size > MAX_BYTES:
            break
        shown.append(line)
    return shown


def _parse(request: Request) -> Asked:
    level, after = request.query_params.get("level"), request.query_params.get("after")
    if level is not None and parse_level(level) is None:
        raise BadRequest(f"Invalid level '{level[:100]}'; allowed are {', '.join(LEVELS)}.")
    return Asked(
        limit=number_in(request, "limit", _LIMITS) or _DEFAULT,
        task=number_in(request, "task", _TASKS),
        level=level,
        after=None if after is None else Positions.parse(after),
    )


def _query(request: Request) -> str:
    """Return the request's parameters for other workers; each takes its own position from `after`."""
    names = ("limit", "task", "level", "after")
    return urlencode({name: value for name in names if (value := request.query_params.get(name)) is not None})


def _own(services: Services, name: ConnectorName, asked: Asked, me: WorkerId) -> Found:
    kept = services.journal.lines.kept(name)
    level = 0 if asked.level is None else parse_level(asked.level) or 0
    after = -1 if asked.after is None else asked.after.on(me)
    wanted = [
        line.to_json(me)
        for line in kept.entries
        if line.level >= level and line.id > after and (asked.task is None or line.task == asked.task)
    ]
    shown = wanted[-asked.limit :] if asked.after is None else wanted[: asked.limit]
    return Found(shown, kept.dropped)


def _theirs(body: object) -> Found | None:
    """Return the lines of another worker's answer; None if it is of another form."""
    match body:
        case {"lines": [*parts], "dropped": int(dropped)}:
            lines = [*map(_their_line, parts[:_MOST])]
            known = [line for line in lines if line is not None]
            return Found(known, dropped) if len(known) == len(lines) else None
        case _:
            return None


def _their_line(part: object) -> Line | None:
    """Return the known fields of a line, with texts no longer than this worker's own."""
    match part:
        case {
            "id": int(at),
            "ms": int(ms),
            "worker_id": str(worker),
            "level": str(level),
            "logger": str(logger),
            "task": int() | None as task,
            "message": str(message),
        } if level in LEVELS:
            texts = {"logger": cut(logger, LOGGER_BYTES), "task": task, "message": cut(message, LINE_BYTES)}
            return {"id": at, "ms": ms, "worker_id": worker, "level": level, **texts}
        case _:
            return None


ENDPOINTS = (_logs,)
