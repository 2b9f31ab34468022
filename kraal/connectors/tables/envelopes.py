"""Reads keys and values in the form `{"schema":…,"payload":…}` as Arrow arrays, one for each schema.

Records with the same schema start with the same text up to their payload. They are found with one comparison of the
whole column, and pyarrow's JSON reader parses their payloads together. Single records are parsed only if they have an
unusual form or are invalid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from kraal.connectors.tables.inference import drop_unknown_types, group_by_type
from kraal.connectors.tables.types import Codec, Node, make_codec

_PAYLOAD_START: Final = ',"payload":'
_SCHEMA_START: Final = '{"schema":'
_MIN_BLOCK: Final = 1 << 22
_MAX_BLOCK: Final = (1 << 31) - 1
_LINE_START: Final = '\n{"p":'
_PARSE_ERRORS: Final = (pa.ArrowException, ArithmeticError, ValueError, KeyError, TypeError)
"""Errors of the codecs for values or schemas that are not valid."""


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_reject_constant)


class SchemaUnusable(ValueError):
    """The schema of a record cannot be a table's."""


@dataclass(frozen=True, slots=True)
class Group:
    """The values of one schema."""

    rows: pa.Array
    """The rows of the batch that have the values, ascending."""
    values: pa.Array
    """The values; null for a payload that is null."""
    schema: Node | None
    """The schema; None for values without one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The keys or values of a batch."""

    groups: Sequence[Group]
    errors: Mapping[int, Exception] = field(default_factory=dict)
    """The rows that cannot be read, with the reasons."""


def read_envelopes(texts: pa.Array) -> Reading:
    """Return the values of a column of envelopes; rows that are null are in no group. Does not raise."""
    groups: list[Group] = []
    errors: dict[int, Exception] = {}
    texts = _drop_invalid_text(texts, errors)
    rows = pc.indices_nonzero(texts.is_valid()).cast(pa.int64())
    remaining = texts.take(rows)
    while len(remaining):
        prefix = _find_prefix(remaining[0].as_py())
        if prefix is None:
            rows, remaining = _normalize(rows, remaining, errors)
            continue
        has_prefix = pc.starts_with(remaining, pattern=prefix)
        _read_group(rows.filter(has_prefix), remaining.filter(has_prefix), prefix, groups, errors)
        is_other = pc.invert(has_prefix)
        rows, remaining = rows.filter(is_other), remaining.filter(is_other)
    return Reading(groups, errors)


def _drop_invalid_text(texts: pa.Array, errors: dict[int, Exception]) -> pa.Array:
    """Return the texts with null for those that are not UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        for row, data in enumerate(texts.cast(pa.binary()).to_pylist()):
            try:
                (data or b"").decode()
            except UnicodeDecodeError as exc:
                errors[row] = ValueError(f"it is not UTF-8: {exc}")
        is_valid = pa.array([row not in errors for row in range(len(texts))], pa.bool_())
        return pc.if_else(is_valid, texts, pa.scalar(None, pa.string()))
    return texts


def _find_prefix(text: str) -> str | None:
    """Return the text of a record up to its payload; None if the envelope has another form."""
    if not text.startswith(_SCHEMA_START):
        return None
    try:
        _, end = _DECODER.raw_decode(text, len(_SCHEMA_START))
    except (ValueError, RecursionError):
        return None
    return text[: end + len(_PAYLOAD_START)] if text.startswith(_PAYLOAD_START, end) else None


def _normalize(rows: pa.Array, texts: pa.Array, errors: dict[int, Exception]) -> tuple[pa.Array, pa.Array]:
    """Return the rows that are envelopes, with their texts in the usual form."""
    valid: list[tuple[int, str]] = []
    for row, text in zip(rows.to_pylist(), texts.to_pylist(), strict=True):
        try:
            members = _split_members(text)
            if set(members) != {"schema", "payload"}:
                raise ValueError('expected an object with the members "schema" and "payload"')
        except (ValueError, RecursionError) as exc:
            errors[row] = ValueError(f"it is not JSON with a schema: {exc}")
        else:
            valid.append((row, f"{_SCHEMA_START}{members['schema']}{_PAYLOAD_START}{members['payload']}}}"))
    return (
        pa.array([row for row, _ in valid], pa.int64()),
        pa.array([text for _, text in valid], pa.string()),
    )


def _split_members(text: str) -> dict[str, str]:
    """Return the texts of the members of a JSON object. Raises ValueError."""
    members: dict[str, str] = {}
    position = _skip(text, 0, "{")
    while text[position : position + 1] != "}" or members:
        name, end = _DECODER.raw_decode(text, position)
        start = _skip(text, end, ":")
        _, end = _DECODER.raw_decode(text, start)
        members[str(name)] = text[start:end]
        position = len(text) - len(text[end:].lstrip())
        if text[position : position + 1] == "}":
            break
        position = _skip(text, position, ",")
    if text[position + 1 :].strip():
        raise ValueError("the object is followed by other text")
    return members


def _skip(text: str, position: int, symbol: str) -> int:
    """Return the position after a symbol and the white space around it. Raises ValueError."""
    match = re.compile(rf"\s*{re.escape(symbol)}\s*").match(text, position)
    if match is None:
        raise ValueError(f"expected {symbol!r} at character {position}")
    return match.end()


def _read_group(
    rows: pa.Array, texts: pa.Array, prefix: str, groups: list[Group], errors: dict[int, Exception]
) -> None:
    """Read records with a common prefix, and add them to `groups`; rows that cannot be read are added to `errors`."""
    node = json.loads(prefix[len(_SCHEMA_START) : -len(_PAYLOAD_START)])
    lines = _make_lines(texts, prefix)
    try:
        codec = None if node is None else make_codec(node)
    except _PARSE_ERRORS as exc:
        errors.update(dict.fromkeys(rows.to_pylist(), SchemaUnusable(f"its schema cannot be used: {exc}")))
        return
    try:
        values = _read_lines(lines, codec, len(rows))
    except _PARSE_ERRORS:
        parsed = _parse_one_by_one(rows, lines, errors)
        if codec is None:
            parts = group_by_type(parsed, errors)
            groups.extend(Group(pa.array(part.rows, pa.int64()), part.to_array(), None) for part in parts)
            return
        rows, values = _read_one_by_one(parsed, codec, errors)
    if len(rows):
        groups.append(Group(rows, values, node))


def _make_lines(texts: pa.Array, prefix: str) -> pa.Array:
    """Return lines `{"p":PAYLOAD}`, each after a newline; a payload already ends with the brace of its envelope."""
    if pc.any(pc.match_substring_regex(texts, pattern="[\r\n]")).as_py():
        texts = pc.replace_substring_regex(texts, pattern="[\r\n]", replacement=" ")
        prefix = re.sub("[\r\n]", " ", prefix)
    return pc.replace_substring(texts, pattern=prefix, replacement=_LINE_START, max_replacements=1)


def _read_lines(lines: pa.Array, codec: Codec | None, count: int) -> pa.Array:
    """Parse all lines with pyarrow. Raises its errors and ValueError."""
    if codec is None:
        return _read_schemaless(lines, count)
    if not codec.reads_json:
        raise ValueError("pyarrow cannot read this schema")
    return codec.convert(_parse(lines, pa.schema([("p", codec.json_type)]), "error", count))


def _read_schemaless(lines: pa.Array, count: int) -> pa.Array:
    """Parse values with the types that pyarrow infers; text that looks like a time stays text."""
    inferred = _parse(lines, None, "infer", count)
    column_type = drop_unknown_types(inferred.type)
    return _parse(lines, pa.schema([("p", column_type)]), "ignore", count)


def _parse(lines: pa.Array, schema: pa.Schema | None, unexpected: str, count: int) -> pa.Array:
    data = _join(lines)
    longest = pc.max(pc.binary_length(lines)).as_py() or 0
    options = pj.ReadOptions(block_size=min(max(2 * longest, _MIN_BLOCK), _MAX_BLOCK))
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    table = pj.read_json(pa.BufferReader(data), read_options=options, parse_options=parse)
    if table.num_rows != count or table.column_names != ["p"]:
        raise ValueError("a payload is followed by other text")
    return pa.concat_arrays(table["p"].chunks)


def _join(lines: pa.Array) -> pa.Buffer:
    """Return the lines in one buffer."""
    _, offsets, data = lines.cast(pa.large_binary()).buffers()
    bounds = pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, offsets], offset=lines.offset)
    start, stop = bounds[0].as_py(), bounds[len(lines)].as_py()
    return data.slice(start, stop - start)


def _parse_one_by_one(rows: pa.Array, lines: pa.Array, errors: dict[int, Exception]) -> dict[int, Any]:
    """Return the payloads that are valid JSON, by row."""
    values: dict[int, Any] = {}
    for row, line in zip(rows.to_pylist(), lines.to_pylist(), strict=True):
        try:
            values[row], end = _DECODER.raw_decode(line, len(_LINE_START))
            if line[end:].strip() != "}":
                raise ValueError("the payload is followed by other text")
        except (*_PARSE_ERRORS, RecursionError) as exc:
            values.pop(row, None)
            errors[row] = ValueError(f"its payload does not match its schema: {exc}")
    return values


def _read_one_by_one(
    payloads: Mapping[int, Any], codec: Codec, errors: dict[int, Exception]
) -> tuple[pa.Array, pa.Array]:
    """Convert payloads one by one; return the rows that are valid and their values."""
    values: dict[int, Any] = {}
    for row, payload in payloads.items():
        try:
            values[row] = codec.adapt(payload)
        except (*_PARSE_ERRORS, RecursionError) as exc:
            errors[row] = ValueError(f"its payload does not match its schema: {exc}")
    try:
        return _to_rows(values), codec.convert(pa.array(values.values(), codec.json_type))
    except _PARSE_ERRORS:
        return _convert_one_by_one(values, codec, errors)


def _convert_one_by_one(
    values: Mapping[int, Any], codec: Codec, errors: dict[int, Exception]
) -> tuple[pa.Array, pa.Array]:
    parts: dict[int, pa.Array] = {}
    for row, value in values.items():
        try:
            parts[row] = codec.convert(pa.array([value], codec.json_type))
        except _PARSE_ERRORS as exc:
            errors[row] = ValueError(f"its payload does not match its schema: {exc}")
    return _to_rows(parts), pa.concat_arrays(parts.values()) if parts else pa.array([], codec.type)


def _to_rows(values: Mapping[int, Any]) -> pa.Array:
    return pa.array(values.keys(), pa.int64())
