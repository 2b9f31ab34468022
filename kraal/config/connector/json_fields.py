"""Parsing of JSON fields that users send over REST or in files, with errors that name the field.

Callers must parse JSON numbers as `Number`, which preserves their text until the type is known.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from kraal.core.errors import BadRequest
from kraal.core.ids import Json
from kraal.core.offsets import Pair

_NO_OFFSETS: Final = "Partitions / offsets need to be provided for an alter offsets request"
_OFFSET_FIELDS: Final = ("partition", "offset")
_MAX_DEPTH: Final = 100
"""Maximum nesting of partition and offset values; Python's own limit depends on the call stack."""
_MAX_DIGITS: Final = 1000
"""Maximum length of a number, because Python does not parse integers with thousands of digits."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


def config_text(value: object) -> str | None:
    """Return a scalar JSON value as a string of a connector config; null stays None."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def parse_offset_pairs(offsets: Any, field: str) -> list[Pair]:
    """Parse a non-empty list of partitions and offsets. Raises BadRequest."""
    if not isinstance(offsets, list):
        raise BadRequest(f"Field {field} must be a JSON array, but is {json_type(offsets)}")
    if not offsets:
        raise BadRequest(_NO_OFFSETS)
    pairs: list[Pair] = []
    for index, pair in enumerate(offsets):
        description = f"{field}[{index}]"
        fields = read_record(pair, description, _OFFSET_FIELDS)
        pairs.append(
            (_read_fields(fields, "partition", description), _read_fields(fields, "offset", description))
        )
    return pairs


def _read_fields(record: dict[str, Any], name: str, description: str) -> dict[str, Json] | None:
    """Return a partition or an offset; None if it is null or missing. Raises BadRequest."""
    value = record.get(name)
    if value is None:
        return None
    fields = read_object(value, f"Field {name} of {description}")
    return {
        check_surrogates(key, f"A key in {description}"): _convert_numbers(member, description)
        for key, member in fields.items()
    }


def _convert_numbers(value: Any, description: str, depth: int = 0) -> Json:
    """Convert the numbers in a value of a partition or an offset. Raises BadRequest."""
    if depth > _MAX_DEPTH:
        raise BadRequest(f"A value in {description} is nested too deeply: more than {_MAX_DEPTH} levels")
    match value:
        case Number():
            text = str(value)
            if len(text) > _MAX_DIGITS:
                raise BadRequest(f"A number in {description} is too long: it has {len(text)} characters")
            if text.removeprefix("-").isdecimal():
                return int(text)
            number = float(text)
            if not math.isfinite(number):
                raise BadRequest(f"A number in {description} is too large: {text}")
            return number
        case str():
            return check_surrogates(value, f"A string in {description}")
        case list():
            return [_convert_numbers(element, description, depth + 1) for element in value]
        case dict():
            return {
                check_surrogates(key, f"A key in {description}"): _convert_numbers(
                    member, description, depth + 1
                )
                for key, member in value.items()
            }
        case _:
            scalar: Json = value
            return scalar


def read_record(value: Any, description: str, allowed: tuple[str, ...]) -> dict[str, Any]:
    """Return an object that has only allowed fields. Raises BadRequest for other fields or values."""
    fields = read_object(value, description[0].upper() + description[1:])
    for name in fields:
        if name not in allowed:
            raise BadRequest(
                f"Unknown field {json.dumps(name)} in {description}; its fields are {', '.join(allowed)}"
            )
    return fields


def read_object(value: Any, description: str) -> dict[str, Any]:
    """Return an object. Raises BadRequest for anything else."""
    if not isinstance(value, dict):
        raise BadRequest(f"{description} must be a JSON object, but is {json_type(value)}")
    return value


def check_surrogates(text: str, description: str) -> str:
    """Return `text` if it can be encoded as UTF-8. Raises BadRequest."""
    if _SURROGATE.search(text):
        raise BadRequest(f"{description} contains an unpaired surrogate: {json.dumps(text)}")
    return text


def json_type(value: Any) -> str:
    """Return the type of a JSON value, for error messages."""
    type_names: list[tuple[type, str]] = [
        (dict, "an object"),
        (list, "an array"),
        (bool, "a boolean"),
        (Number, "a number"),
        (str, "a string"),
    ]
    return next((name for cls, name in type_names if isinstance(value, cls)), "null")
