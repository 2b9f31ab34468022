"""Readers for typed fields of JSON records. They raise ProtocolError with the name of the field."""

from __future__ import annotations

from collections.abc import Mapping

from kraal.core.errors import ProtocolError
from kraal.core.ids import Json, TaskId
from kraal.protocol.json_bytes import from_bytes, json_type_name

_INT32_MAX = 2**31 - 1


class NotJson(ProtocolError):
    """A record's value is not valid JSON. In Connect, the record does not advance the config offset."""


def parse_json(value: bytes | None) -> Json:
    """Parse a value; None (a tombstone) stays None. Raises NotJson."""
    if value is None:
        return None
    try:
        return from_bytes(value)
    except ProtocolError as exc:
        raise NotJson(str(exc)) from exc


def read_object(data: Json) -> Mapping[str, Json]:
    """Return `data` as an object."""
    if not isinstance(data, dict):
        raise ProtocolError(f"the value must be an object, but is {json_type_name(data)}")
    return data


def read_string(fields: Mapping[str, Json], name: str) -> str:
    """Return the string field `name`."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise ProtocolError(f"{name} must be a string, but is {json_type_name(value)}")
    return value


def read_int(fields: Mapping[str, Json], name: str) -> int:
    """Return the integer field `name`."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProtocolError(f"{name} must be a number, but is {json_type_name(value)}")
    return value


def read_count(fields: Mapping[str, Json], name: str) -> int:
    """Return the field `name` as a non-negative int32."""
    value = read_int(fields, name)
    if not 0 <= value <= _INT32_MAX:
        raise ProtocolError(f"{name} must be between 0 and {_INT32_MAX}, but is {value}")
    return value


def parse_task_id(text: str) -> TaskId:
    """Parse a task id `CONNECTOR-N`; the connector's name may contain `-`."""
    try:
        task = TaskId.parse(text)
    except ValueError as exc:
        raise ProtocolError(str(exc)) from exc
    if task.task > _INT32_MAX:
        raise ProtocolError(f"task number {task.task} is greater than {_INT32_MAX}")
    return task
