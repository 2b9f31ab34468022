"""Offsets of a connector: the table, submitted changes, and the request that applies them (KIP-875)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NoReturn

from kraal.core.ids import Json
from kraal.core.printable import format_count

_PARTITION_PREFIX: Final = "p."
"""Prefix of the hidden input with a row's partition, as JSON."""
_BEFORE_PREFIX: Final = "b."
"""Prefix of the hidden input with the displayed offset, as JSON."""
_AFTER_PREFIX: Final = "o."
"""Prefix of the input with the typed offset."""
_DELETE_PREFIX: Final = "x."
"""Prefix of the checkbox that deletes a partition's offset."""
NEW_PARTITION: Final = "new.partition"
NEW_OFFSET: Final = "new.offset"

MAX_ROWS: Final = 500
"""Maximum number of rows on a page; `kraal offsets` and the REST API have no such limit."""
_SINK_KEYS: Final = {"kafka_topic", "kafka_partition"}
_MAX_DIGITS: Final = 18
NOT_STOPPED_ERROR: Final = (
    "Offsets can be changed only while the connector is STOPPED and has no running tasks."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Offset of a partition. JSON texts preserve the field order of the response, which can be significant."""

    partition: str
    offset: str
    """`null` if the partition has no offset."""
    topic: str = ""
    number: str = ""
    """Kafka partition number; `topic` and `number` are empty for a source."""
    position: str = ""
    """Kafka offset of a sink; empty if there is none."""
    lag: int | None = None
    """Lag of a sink's partition; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Offsets of a connector, for display."""

    is_sink: bool
    rows: tuple[Row, ...]
    total: int
    """Number of all partitions; `rows` contains the matching partitions, up to the limit."""
    match_count: int
    """Number of matching partitions."""
    has_lags: bool = False
    """Whether the worker reports lags."""
    lag: int | None = None
    """Sum of the known lags of all partitions; None if no lag is known."""


class Kind(StrEnum):
    """Kind of change of a partition's offset."""

    FORWARD = "forward"
    BACK = "back"
    CHANGED = "changed"
    """Change of a source offset; source offsets have no known order."""
    ADDED = "added"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetChange:
    """Pending change of a partition's offset."""

    row: Row
    before: str
    after: str
    kind: Kind
    records: int | None = None
    """Distance in records, for a sink."""

    @property
    def input_value(self) -> str:
        """New offset, for the input of the row."""
        return str(json.loads(self.after)["kafka_offset"]) if self.row.topic else self.after

    @property
    def effect(self) -> str:
        """Description of the effect."""
        match self.kind:
            case Kind.FORWARD:
                return f"skips at most {format_count(self.records or 0, 'record')}"
            case Kind.BACK:
                return f"reads at most {format_count(self.records or 0, 'record')} again"
            case Kind.ADDED:
                return "starts at this offset"
            case Kind.DELETED:
                return "no offset; the connector decides where to start"
            case Kind.CHANGED:
                return "continues at this offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Submitted changes, compared with the current offsets."""

    changes: tuple[OffsetChange, ...]
    errors: Mapping[str, str]
    """Errors by partition; for a new row, by the partition as typed."""
    outdated_partitions: tuple[str, ...] = ()
    """Partitions whose offset has changed since the page was rendered, so that the user must review the changes."""

    @property
    def body(self) -> Json:
        """Body of `PATCH /connectors/{c}/offsets`."""
        return {
            "offsets": [
                {"partition": json.loads(change.row.partition), "offset": json.loads(change.after)}
                for change in self.changes
            ]
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedOffset:
    """Row of a posted form."""

    partition: str
    after: str
    before: str | None = None
    """Displayed offset; None for a new row."""
    delete: bool = False


def build_table(response: Json, *, is_sink: bool, query: str = "", limit: int = MAX_ROWS) -> Table:
    """Build the sorted table of the partitions that contain `query` from a response to `GET …/offsets`."""
    rows = _parse_rows(response, is_sink=is_sink)
    matching_rows = [row for row in rows if query.lower() in row.partition.lower()]
    lags = [row.lag for row in rows if row.lag is not None]
    return Table(
        is_sink=is_sink,
        rows=tuple(matching_rows[:limit]),
        total=len(rows),
        match_count=len(matching_rows),
        has_lags=is_sink and any("lag" in entry for entry in _offset_entries(response)),
        lag=sum(lags) if lags else None,
    )


def can_change(status: Json) -> bool:
    """Return whether the connector is stopped and has no tasks, so that its offsets can be changed."""
    if not isinstance(status, dict) or status.get("tasks"):
        return False
    connector = status.get("connector")
    return isinstance(connector, dict) and connector.get("state") == "STOPPED"


def read_rows(pairs: Iterable[tuple[str, str]]) -> list[TypedOffset]:
    """Parse the rows of a posted form, in order."""
    fields = list(pairs)
    values = dict(fields)
    rows = [
        TypedOffset(
            partition=value,
            before=values.get(_BEFORE_PREFIX + name[len(_PARTITION_PREFIX) :]),
            after=values.get(_AFTER_PREFIX + name[len(_PARTITION_PREFIX) :], ""),
            delete=_DELETE_PREFIX + name[len(_PARTITION_PREFIX) :] in values,
        )
        for name, value in fields
        if name.startswith(_PARTITION_PREFIX)
    ]
    keys = [value for name, value in fields if name == NEW_PARTITION]
    offsets = [value for name, value in fields if name == NEW_OFFSET]
    return rows + [
        TypedOffset(partition=key, after=offset)
        for key, offset in zip(keys, offsets, strict=False)
        if key.strip() or offset.strip()
    ]


def preview(typed_offsets: Sequence[TypedOffset], response: Json, *, is_sink: bool) -> Preview:
    """Compare submitted rows with the current offsets, omitting unchanged rows."""
    current_rows = {normalize_json(row.partition): row for row in _parse_rows(response, is_sink=is_sink)}
    changes: dict[str, OffsetChange] = {}
    errors: dict[str, str] = {}
    outdated_partitions: list[str] = []
    for typed_offset in typed_offsets:
        try:
            partition = json_object(typed_offset.partition, "The partition", may_be_null=False)
            after = (
                "null"
                if typed_offset.delete
                else _parse_offset(typed_offset.after, is_sink=is_sink and typed_offset.before is not None)
            )
            if is_sink:
                check_sink_partition(partition)
                check_sink_offset(after)
        except ValueError as exc:
            errors[typed_offset.partition] = str(exc)
            continue
        key = normalize_json(partition)
        row = current_rows.get(key) or _build_row(json.loads(partition), None, is_sink=is_sink)
        if key in changes:
            errors[typed_offset.partition] = "Duplicate partition"
            continue
        if typed_offset.before is not None and normalize_json(after) == normalize_json(typed_offset.before):
            continue
        if typed_offset.before is not None and normalize_json(typed_offset.before) != normalize_json(
            row.offset
        ):
            outdated_partitions.append(row.partition)
        if normalize_json(after) != normalize_json(row.offset):
            changes[key] = _build_change(row, after)
    return Preview(
        changes=tuple(changes.values()), errors=errors, outdated_partitions=tuple(outdated_partitions)
    )


def change_question(name: str, changes: Sequence[OffsetChange], *, is_sink: bool) -> str:
    """Return the question and the effect for the confirmation of a change."""
    effect = "Records between the old and the new offsets are read again, or skipped."
    if not is_sink:
        effect = "The connector continues from the new offsets; records in between are read again or skipped."
    return f"Change {format_count(len(changes), 'offset')} of {name}? {effect}"


def reset_question(name: str, total: int, *, is_sink: bool) -> str:
    """Return the question and the effect for the confirmation of a reset."""
    if is_sink:
        effect = (
            "Its consumer group is deleted. Once resumed, the connector starts at the position that "
            "auto.offset.reset selects, by default the earliest record."
        )
    else:
        effect = "Once resumed, the connector starts as if it had never run and may read the same data again."
    return f"Delete all {format_count(total, 'offset')} of {name}? {effect}"


def _parse_rows(response: Json, *, is_sink: bool) -> list[Row]:
    rows = [
        replace(
            _build_row(entry.get("partition"), entry.get("offset"), is_sink=is_sink),
            lag=_parse_lag(entry.get("lag")),
        )
        for entry in _offset_entries(response)
    ]
    return sorted(rows, key=lambda row: (row.topic, _parse_int(row.number), row.partition))


def _offset_entries(response: Json) -> list[dict[str, Json]]:
    offsets = response.get("offsets") if isinstance(response, dict) else None
    return [entry for entry in (offsets if isinstance(offsets, list) else []) if isinstance(entry, dict)]


def _parse_lag(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _build_row(partition: Json, offset: Json, *, is_sink: bool) -> Row:
    topic, number, position = "", "", ""
    if is_sink and isinstance(partition, dict):
        topic, number = str(partition.get("kafka_topic", "")), str(partition.get("kafka_partition", ""))
    if is_sink and isinstance(offset, dict):
        position = str(offset.get("kafka_offset", ""))
    return Row(
        partition=_to_json_text(partition),
        offset=_to_json_text(offset),
        topic=topic,
        number=number,
        position=position,
    )


def _build_change(row: Row, after: str) -> OffsetChange:
    records: int | None = None
    kind = Kind.DELETED if after == "null" else Kind.ADDED if row.offset == "null" else Kind.CHANGED
    if kind is Kind.CHANGED and row.position:
        distance = int(json.loads(after)["kafka_offset"]) - _parse_int(row.position)
        kind, records = (Kind.FORWARD if distance > 0 else Kind.BACK), abs(distance)
    return OffsetChange(row=row, before=row.offset, after=after, kind=kind, records=records)


def _parse_offset(text: str, *, is_sink: bool) -> str:
    """Convert a typed offset (a number for a sink, JSON otherwise) to JSON. Raises ValueError."""
    if not is_sink:
        return json_object(text, "The offset", may_be_null=True)
    number = text.strip()
    if not (number.isascii() and number.isdecimal()) or len(number) > _MAX_DIGITS:
        raise ValueError("Enter a nonnegative integer, or check the box to delete the offset")
    return _to_json_text({"kafka_offset": int(number)})


def json_object(text: str, label: str, *, may_be_null: bool) -> str:
    """Return a JSON object as compact text. Raises ValueError with a message for the user."""
    expected_type = "a JSON object or null" if may_be_null else "a JSON object"
    try:
        value = json.loads(
            text,
            parse_constant=_reject_constant,
            parse_float=_parse_finite,
            object_pairs_hook=_without_duplicates,
        )
        json_text = _to_json_text(value)
    except RecursionError as exc:
        raise ValueError(f"{label} is nested too deeply") from exc
    except ValueError as exc:
        raise ValueError(f"{label} must be {expected_type}: {exc}") from exc
    if value is None and may_be_null:
        return "null"
    if not isinstance(value, dict):
        raise ValueError(f"{label} must be {expected_type}")
    return json_text


def check_sink_partition(partition: str) -> None:
    """Check a sink's partition, a JSON object, before the worker does. Raises ValueError."""
    if set(json.loads(partition)) != _SINK_KEYS:
        raise ValueError('The partition must look like {"kafka_topic": "orders", "kafka_partition": 0}')


def check_sink_offset(text: str) -> None:
    """Check a sink's offset, a JSON object or null, before the worker does. Raises ValueError."""
    offset = json.loads(text)
    if offset is not None and (set(offset) != {"kafka_offset"} or not _is_number(offset["kafka_offset"])):
        raise ValueError('The offset must be null or look like {"kafka_offset": 10}')


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int) and value >= 0


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")


def _parse_finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _reject_constant(number)


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Build an object. Raises ValueError for a duplicate key, which would lose a value."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("duplicate key")
    return result


def _to_json_text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def normalize_json(text: str) -> str:
    """Normalize JSON so that equal values have equal texts; a text that is not JSON stays unchanged."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _parse_int(text: str) -> int:
    return int(text) if text.lstrip("-").isdecimal() and len(text) <= _MAX_DIGITS + 1 else -1
