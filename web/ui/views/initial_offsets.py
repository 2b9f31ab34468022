"""Initial offsets of a new connector (KIP-995): parsing, early checks, and the value in the request. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kraal.config.connector.json_fields import Number
from kraal.core.ids import Json
from web.ui.views.offsets import check_sink_offset, check_sink_partition, json_object, normalize_json

PARTITION: Final = "at.partition"
OFFSET: Final = "at.offset"
NOT_A_LIST_ERROR: Final = "initial_offsets must be a list of objects with partition and offset."
UNSUPPORTED_ERROR: Final = (
    "Only Kraal workers support initial_offsets. Create the connector as STOPPED without them, "
    "and set its offsets afterwards."
)
NOT_NEW_ERROR: Final = (
    "initial_offsets apply only when a connector is created; change its offsets on the offsets page."
)
_ROW_PATTERN: Final = re.compile(r"\binitial_offsets\[([0-9]{1,6})\]")
_FIELDS: Final = {"partition", "offset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialOffset:
    """Partition and offset as JSON texts, with their errors."""

    partition: str = ""
    offset: str = ""
    partition_error: str = ""
    offset_error: str = ""

    @property
    def has_error(self) -> bool:
        """Whether either text has an error."""
        return bool(self.partition_error or self.offset_error)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialOffsets:
    """Initial offsets; `problem` is an error that belongs to no row."""

    rows: tuple[InitialOffset, ...] = ()
    problem: str = ""

    @property
    def error_count(self) -> int:
        """Number of rows with errors, plus one for the problem."""
        return sum(row.has_error for row in self.rows) + bool(self.problem)

    @property
    def body(self) -> list[Json]:
        """Value of `initial_offsets` in the request; empty without rows, or if a row has an error."""
        if any(row.has_error for row in self.rows):
            return []
        return [
            {"partition": json.loads(row.partition), "offset": json.loads(row.offset)} for row in self.rows
        ]

    def assign_error(self, text: str) -> InitialOffsets | None:
        """Assign a worker's error to the affected row; return None if the error does not concern the offsets."""
        if not self.rows or "offset" not in text.lower():
            return None
        match = _ROW_PATTERN.search(text)
        number = int(match[1]) if match else len(self.rows)
        if number >= len(self.rows):
            return replace(self, problem=text)
        row = self.rows[number]
        concerns_partition = "partition" in text and "offset" not in text.replace("initial_offsets", "")
        row_with_error = (
            replace(row, partition_error=text) if concerns_partition else replace(row, offset_error=text)
        )
        return replace(self, rows=(*self.rows[:number], row_with_error, *self.rows[number + 1 :]))


def parse_typed_offsets(fields: Iterable[tuple[str, str]]) -> InitialOffsets:
    """Parse the non-empty rows of a posted form."""
    pairs = list(fields)
    partitions = [value.strip() for name, value in pairs if name == PARTITION]
    offsets = [value.strip() for name, value in pairs if name == OFFSET]
    return InitialOffsets(
        rows=tuple(
            InitialOffset(partition=partition, offset=offset)
            for partition, offset in zip(partitions, offsets, strict=False)
            if partition or offset
        )
    )


def parse_pasted_offsets(value: Json) -> InitialOffsets:
    """Parse `initial_offsets` in a pasted request, in which numbers are of type `Number`.

    Raises ValueError with a message for the user, and RecursionError.
    """
    if value is None:
        return InitialOffsets()
    if not isinstance(value, list) or not all(
        isinstance(entry, dict) and entry.keys() <= _FIELDS for entry in value
    ):
        raise ValueError(NOT_A_LIST_ERROR)
    return InitialOffsets(
        rows=tuple(
            InitialOffset(partition=_to_text(entry.get("partition")), offset=_to_text(entry.get("offset")))
            for entry in value
            if isinstance(entry, dict)
        )
    )


def check_initial_offsets(initial_offsets: InitialOffsets, *, is_sink: bool) -> InitialOffsets:
    """Check the offsets before they are sent; return them with the errors added."""
    checked_rows = [_check_row(row, is_sink=is_sink) for row in initial_offsets.rows]
    return replace(initial_offsets, rows=tuple(_with_duplicate_errors(checked_rows)))


def _check_row(row: InitialOffset, *, is_sink: bool) -> InitialOffset:
    partition = _find_error(row.partition, "The partition", check_sink_partition if is_sink else None)
    offset = _find_error(row.offset, "The offset", check_sink_offset if is_sink else None)
    return replace(row, partition_error=partition, offset_error=offset)


def _find_error(text: str, label: str, check: Callable[[str], None] | None) -> str:
    try:
        json_text = json_object(text, label, may_be_null=False)
        if check is not None:
            check(json_text)
    except ValueError as exc:
        return f"{exc}."
    return ""


def _with_duplicate_errors(rows: Sequence[InitialOffset]) -> Iterable[InitialOffset]:
    """Yield the rows, adding errors to duplicate partitions."""
    seen_partitions: set[str] = set()
    for row in rows:
        key = normalize_json(row.partition)
        if not row.partition_error and key in seen_partitions:
            yield replace(row, partition_error="Duplicate partition.")
            continue
        seen_partitions.add(key)
        yield row


def _to_text(value: Json) -> str:
    return json.dumps(_with_numbers(value), ensure_ascii=False)


def _with_numbers(value: Json) -> Json:
    match value:
        case Number():
            number: Json = json.loads(value)
            return number
        case list():
            return [_with_numbers(item) for item in value]
        case dict():
            return {key: _with_numbers(item) for key, item in value.items()}
        case _:
            return value
