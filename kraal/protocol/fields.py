"""Typed fields of JSON records. All errors are ProtocolErrors whose message names the field."""

from __future__ import annotations

from collections.abc import Mapping

from kraal.core.errors import ProtocolError
from kraal.core.ids import Json, TaskId
from kraal.protocol.json_bytes import from_bytes, kind

_INT32_MAX = 2**31 - 1


class NotJson(ProtocolError):
    """The value cannot be decoded at all: in Java such a record does not advance the config offset."""


def parse_json(value: bytes | None) -> Json:
    """Decode a value; None (a tombstone) stays None. Raises NotJson."""
    if value is None:
        return None
    try:
        return from_bytes(value)
    except ProtocolError as exc:
        raise NotJson(str(exc)) from exc


def read_object(data: Json) -> Mapping[str, Json]:
    """Return `data` if it is an object."""
    if not isinstance(data, dict):
        raise ProtocolError(f"the value must be an object, but is {kind(data)}")
    return data


def read_string(fields: Mapping[str, Json], name: str) -> str:
    """Return the string field `name`."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"{name} must be a string, but is {kind(value)}")
    return value


def read_int(fields: Mapping[str, Json], name: str) -> int:
    """Return the whole number field `name`."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProtocolError(f"{name} must be a number, but is {kind(value)}")
    return value


def read_count(fields: Mapping[str, Json], name: str) -> int:
    """Return the field `name`, a number from 0 to the largest int32."""
    value = read_int(fields, name)
    if not 0 <= value <= _INT32_MAX:
        raise ProtocolError(f"{name} must be between 0 and {_INT32_MAX}, but is {value}")
    return value


def parse_task_id(text: str) -> TaskId:
    """Parse `X-N`; the connector's name may contain `-` itself."""
    try:
        task = TaskId.parse(text)
    except ValueError as exc:
        raise ProtocolError(str(exc)) from exc
    if task.task > _INT32_MAX:
        raise ProtocolError(f"task number {task.task} is beyond {_INT32_MAX}")
    return task
