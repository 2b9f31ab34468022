"""Request bodies: read within a limit, parsed as JSON and converted for messages.

An invalid body is the client's error: status 400 with a message that states the problem and its position (Java
responds with 500 and its library's text). As in Jackson, values of config maps are strings: numbers are kept as written
(`1.50`, `1E400`), and booleans become `true` or `false`. Null stays null. The last value of a duplicate key wins.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kraal.config.connector.files import parse_initial_state
from kraal.config.connector.json_fields import (
    Number,
    check_surrogates,
    json_type,
    parse_offset_pairs,
    read_object,
    read_record,
)
from kraal.core.errors import BadRequest, Unavailable
from kraal.core.ids import Config, ConnectorName, TargetState
from kraal.core.offsets import Pair
from web.errors import TooLarge, UnsupportedMediaType, jaxrs_error_text
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request

_CREATE_FIELDS = ("name", "config", "initial_state", "initial_offsets")
_TRIMMED_CHARACTERS = "".join(map(chr, range(0x21)))
"""Characters that Java's String.trim removes."""

_REPLAY_FIELDS = ("limit", "dry_run", "from")
_FROM_LABEL = "Field from"
_MAX_OFFSET_DIGITS = 18
_OFFSETS_FIELDS = ("offsets",)

_DISCARD_FACTOR = 16
"""Bodies of up to this multiple of the limit are read to the end and discarded."""
_DISCARD_TIMEOUT_S = 5.0

NOT_SCALAR_ERROR = "must be a string, number, boolean or null, but is"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    """Body of `POST /connectors`. Source: CreateConnectorRequest; KIP-980, KIP-995."""

    name: ConnectorName
    config: Config
    initial_state: TargetState | None
    initial_offsets: list[Pair] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """Body of `POST /connectors/{c}/dead-letters/replay`."""

    limit: int
    dry_run: bool
    start: Mapping[int, int] | None = None
    """Offset by partition at which the caller expects the replay to start; None if unspecified."""


async def read_body(services: Services, request: Request) -> bytes:
    """Read the body. Raises TooLarge, UnsupportedMediaType, and Unavailable if the memory for bodies is exhausted."""
    body = await read_raw(services, request, services.settings.max_body_bytes)
    if body and "content-type" not in request.headers:
        raise UnsupportedMediaType(jaxrs_error_text(UnsupportedMediaType.status))
    return body


async def read_raw(services: Services, request: Request, limit: int, *, internal: bool = False) -> bytes:
    """Read a body of any type, at most `limit` bytes. Raises TooLarge, and Unavailable if memory for bodies is full.

    `internal` requests are sent by workers and have a separate memory limit.
    """
    content_length = request.headers.get("content-length", "0")
    body = bytearray()
    if content_length.isdecimal() and int(content_length) > limit:
        if int(content_length) <= limit * _DISCARD_FACTOR and "expect" not in request.headers:
            await _discard_body(request)
        raise _too_large(limit)
    refusal: Unavailable | None = None
    async for chunk in request.stream():
        if refusal is not None:
            continue
        body += chunk
        if len(body) > limit:
            raise _too_large(limit)
        try:
            services.admission.count_body_bytes(request.scope, len(chunk), internal=internal)
        except Unavailable as error:
            # The server discards the remaining body. With `Connection: close`, the server would close the connection
            # while the client is still sending, so the body is first read to its end.
            if request.headers.get("connection", "").lower() != "close":
                raise
            refusal = error
            body.clear()
            services.admission.release_body(request.scope)
    if refusal is not None:
        raise refusal
    return bytes(body)


async def discard_before_close(request: Request) -> None:
    """Read and discard the body of a rejected request if the connection closes after the response.

    Otherwise the client would see a connection reset instead of the response. Reading ends after a timeout.
    """
    if request.headers.get("connection", "").lower() == "close" and "expect" not in request.headers:
        await _discard_body(request)


async def _discard_body(request: Request) -> None:
    """Read and discard a body, because most clients read the response only after they have sent the whole body."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_TIMEOUT_S):
            async for _ in request.stream():
                pass


def parse_config(body: bytes) -> Config:
    """Parse a body that is a config map. Raises BadRequest."""
    return config_map(parse_json(body), "The request body")


def parse_create_request(body: bytes) -> CreateRequest:
    """Parse the body of `POST /connectors` and trim the connector name. Raises BadRequest."""
    fields = read_record(parse_json(body), "the request body", _CREATE_FIELDS)
    if fields.get("config") is None:
        raise BadRequest("Field config is missing in the request body; it must be an object")
    name = _text(fields.get("name"), "Field name") or ""
    state = _text(fields.get("initial_state"), "Field initial_state")
    offsets = fields.get("initial_offsets")
    return CreateRequest(
        name=ConnectorName(name.strip(_TRIMMED_CHARACTERS)),
        config=config_map(fields["config"], "Field config"),
        initial_state=None if state is None else parse_initial_state(state),
        initial_offsets=None if offsets is None else parse_offset_pairs(offsets, "initial_offsets"),
    )


def parse_offsets(body: bytes) -> list[Pair]:
    """Parse the body of `PATCH /connectors/{c}/offsets`: at least one pair. Raises BadRequest."""
    offsets = read_record(parse_json(body), "the request body", _OFFSETS_FIELDS).get("offsets")
    return parse_offset_pairs([] if offsets is None else offsets, "offsets")


def parse_replay(body: bytes, *, max_limit: int) -> ReplayRequest:
    """Parse the body of `POST /connectors/{c}/dead-letters/replay`. Raises BadRequest."""
    fields = read_record(parse_json(body), "the request body", _REPLAY_FIELDS)
    limit, dry_run = fields.get("limit", Number(max_limit)), fields.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise BadRequest(f"Field dry_run must be a boolean, but is {json_type(dry_run)}")
    number = float(limit) if isinstance(limit, Number) else 0.0
    if not 1 <= number <= max_limit or not number.is_integer():
        raise BadRequest(f"Field limit must be a whole number from 1 to {max_limit}")
    start = (
        None
        if "from" not in fields
        else dict(_parse_offset(*item) for item in read_object(fields["from"], _FROM_LABEL).items())
    )
    return ReplayRequest(limit=int(number), dry_run=dry_run, start=start)


def _parse_offset(partition: str, offset: Any) -> tuple[int, int]:
    offset_value = Decimal(offset) if isinstance(offset, Number) else Decimal(-1)
    is_partition = partition.isascii() and partition.isdecimal() and len(partition) <= _MAX_OFFSET_DIGITS
    if not is_partition or not 0 <= offset_value < 10**_MAX_OFFSET_DIGITS or offset_value % 1:
        raise BadRequest(f'{_FROM_LABEL} must contain partitions and their offsets, such as {{"0": 17}}')
    return int(partition), int(offset_value)


def parse_json(body: bytes) -> Any:
    """Parse JSON, keeping numbers as text. Raises BadRequest with the line and column of an error."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise BadRequest(f"The request body is not UTF-8 at byte {exc.start + 1}") from exc
    if not text.strip():
        raise BadRequest("The request body is empty; it must be a JSON object")
    try:
        return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=_reject_constant)
    except json.JSONDecodeError as exc:
        position = f"line {exc.lineno}, column {exc.colno}"
        raise BadRequest(f"The request body is not JSON: {exc.msg} ({position})") from exc
    except RecursionError as exc:
        raise BadRequest("The request body is nested too deeply") from exc


def config_map(value: Any, label: str) -> Config:
    """Convert a JSON object to a config; `label` names the object in errors. Raises BadRequest."""
    return {
        check_surrogates(key, "A key"): _text(setting, f"Value of config key {key}")
        for key, setting in read_object(value, label).items()
    }


def _text(value: Any, label: str) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case str():
            return check_surrogates(str(value), label)
        case _:
            raise BadRequest(f"{label} {NOT_SCALAR_ERROR} {json_type(value)}")


def _reject_constant(name: str) -> Callable[[], None]:
    raise BadRequest(f"The request body is not JSON: {name} is not a JSON number")


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request body is larger than the {limit} bytes that this worker accepts")
