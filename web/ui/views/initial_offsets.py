"""Initial offsets of a new connector (KIP-995): parsing, early checks, and the request's field. Pure."""

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
NOT_A_LIST: Final = "initial_offsets must be a list of objects with partition and offset."
NOT_SUPPORTED: Final = (
    "Only Kraal's workers take initial_offsets. Create the connector as STOPPED without them, "
    "and set its offsets then."
)
ONLY_NEW: Final = (
    "initial_offsets count only when a connector is created; change its offsets on their own page."
)
_ROW: Final = re.compile(r"\binitial_offsets\[([0-9]{1,6})\]")
_FIELDS: Final = {"partition", "offset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRow:
    """The offset of one partition, both as JSON texts with their errors."""

    partition: str = ""
    offset: str = ""
    partition_error: str = ""
    offset_error: str = ""

    @property
    def wrong(self) -> bool:
        """Whether a text has an error."""
        return bool(self.partition_error or self.offset_error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The offsets; `problem` is an error without a row."""

    rows: tuple[StartRow, ...] = ()
    problem: str = ""

    @property
    def errors(self) -> int:
        """Number of rows with errors, and the problem."""
        return sum(row.wrong for row in self.rows) + bool(self.problem)

    @property
    def body(self) -> list[Json]:
        """The value of `initial_offsets`; empty without rows, or if a text is not JSON."""
        if any(row.wrong for row in self.rows):
            return []
        return [
            {"partition": json.loads(row.partition), "offset": json.loads(row.offset)} for row in self.rows
        ]

    def assign_error(self, text: str) -> Start | None:
        """Assign an error of the worker to its row; None if the error does not concern the offsets."""
        if not self.rows or "offset" not in text.lower():
            return None
        match = _ROW.search(text)
        number = int(match[1]) if match else len(self.rows)
        if number >= len(self.rows):
            return replace(self, problem=text)
        row = self.rows[number]
        about_partition = "partition" in text and "offset" not in text.replace("initial_offsets", "")
        row_with_error = (
            replace(row, partition_error=text) if about_partition else replace(row, offset_error=text)
        )
        return replace(self, rows=(*self.rows[:number], row_with_error, *self.rows[number + 1 :]))


def typed_start(fields: Iterable[tuple[str, str]]) -> Start:
    """Parse the rows of a posted form, without empty ones."""
    pairs = list(fields)
    partitions = [value.strip() for name, value in pairs if name == PARTITION]
    offsets = [value.strip() for name, value in pairs if name == OFFSET]
    return Start(
        rows=tuple(
            StartRow(partition=partition, offset=offset)
            for partition, offset in zip(partitions, offsets, strict=False)
            if partition or offset
        )
    )


def pasted_start(value: Json) -> Start:
    """Parse the value of `initial_offsets` in a pasted request, with each number as a `Number`.

    Raises ValueError with a sentence, RecursionError.
    """
    if value is None:
        return Start()
    if not isinstance(value, list) or not all(
        isinstance(each, dict) and each.keys() <= _FIELDS for each in value
    ):
        raise ValueError(NOT_A_LIST)
    return Start(
        rows=tuple(
            StartRow(partition=_text(each.get("partition")), offset=_text(each.get("offset")))
            for each in value
            if isinstance(each, dict)
        )
    )


def checked_start(start: Start, *, sink: bool) -> Start:
    """Check the offsets early; the worker checks again."""
    checked = [_check_row(row, sink=sink) for row in start.rows]
    return replace(start, rows=tuple(_with_duplicate_errors(checked)))


def _check_row(row: StartRow, *, sink: bool) -> StartRow:
    partition = _error(row.partition, "The partition", check_sink_partition if sink else None)
    offset = _error(row.offset, "The offset", check_sink_offset if sink else None)
    return replace(row, partition_error=partition, offset_error=offset)


def _error(text: str, label: str, check: Callable[[str], None] | None) -> str:
    try:
        json_text = json_object(text, label, may_be_null=False)
        if check is not None:
            check(json_text)
    except ValueError as exc:
        return f"{exc}."
    return ""


def _with_duplicate_errors(rows: Sequence[StartRow]) -> Iterable[StartRow]:
    """Yield the rows, with an error at duplicate partitions."""
    seen: set[str] = set()
    for row in rows:
        key = normalize_json(row.partition)
        if not row.partition_error and key in seen:
            yield replace(row, partition_error="Duplicate partition.")
            continue
        seen.add(key)
        yield row


def _text(value: Json) -> str:
    return json.dumps(_with_numbers(value), ensure_ascii=False)


def _with_numbers(value: Json) -> Json:
    match value:
        case Number():
            number: Json = json.loads(value)
            return number
        case list():
            return [_with_numbers(each) for each in value]
        case dict():
            return {key: _with_numbers(each) for key, each in value.items()}
        case _:
            return value
