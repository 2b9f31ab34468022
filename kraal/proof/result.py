"""The result of a proof, as JSON for REST and as lines for users."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.proof.differences import Differences, OffsetSpan, RowKey, SourceSpan, Span, format_offsets

SHOWN_SPANS: Final = 5
"""Maximum number of spans in a line for users."""


RUNNING: Final = "RUNNING"
"""The state of a proof that has no verdict yet."""


class Verdict(StrEnum):
    """The verdict of a proof."""

    PROVED = "PROVED"
    """Each committed record was delivered once, and no others. In a partial result: no record is missing."""
    DIFFERENT = "DIFFERENT"
    """Rows are missing, repeated or unexpected."""
    UNDECIDED = "UNDECIDED"
    """Source, topics and target could not be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRecords:
    """The number of records that the connector does not deliver on purpose; None if it was not counted."""

    dead_letters: int | None = None
    """Records that cannot be processed, if the connector has a dead letter topic."""
    tolerated: int | None = None
    """Records that cannot be processed, if the connector has no dead letter topic."""
    dropped: int | None = None
    """Records that a transform dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofResult:
    """The result of a comparison."""

    ranges: Mapping[TopicPartition, tuple[int, int]]
    """The compared offsets of each topic partition: of a sink, up to the committed offset."""
    expected_count: int
    """Number of rows that must be stored."""
    stored_count: int
    """Number of rows in the target of a sink, or in the topics of a source."""
    differences: Differences
    skipped: SkippedRecords
    is_partial: bool = False
    """Whether there may be stored rows of records that were not compared. Then only missing rows were searched."""
    source_offsets: Mapping[SourcePartition, Offset] | None = None
    """The offsets up to which the records of a source were compared; None for a sink."""
    is_by_key: bool = False
    """Whether the last state of each key was compared, so that repeated records make no difference."""
    not_compared: tuple[str, ...] = ()
    """The tables and columns that were not compared, with the reasons."""

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        differences = self.differences
        extra = 0 if self.is_partial else differences.repeated_count + differences.unexpected_count
        return Verdict.DIFFERENT if differences.missing_count or extra else Verdict.PROVED

    def to_json_object(self) -> dict[str, Any]:
        """Return the result in the form of the REST response."""
        differences = self.differences
        return {
            "partitions": [
                {"topic": partition.topic, "partition": partition.partition, "first": first, "end": end}
                for partition, (first, end) in sorted(self.ranges.items())
            ],
            "source_offsets": None
            if self.source_offsets is None
            else [
                {"partition": partition.as_dict(), "offset": dict(offset)}
                for partition, offset in self.source_offsets.items()
            ],
            "partial": self.is_partial,
            "expected_rows": self.expected_count,
            "stored_rows": self.stored_count,
            "missing": {
                "rows": differences.missing_count,
                "offsets": _list_offsets(differences.missing),
                "source_records": _list_source_records(differences.missing_source_records),
                "keys": _list_keys(differences.missing_keys),
            },
            "repeated": None
            if self.is_partial or self.is_by_key
            else {"rows": differences.repeated_count, "offsets": _list_offsets(differences.repeated)},
            "unexpected": None
            if self.is_partial
            else {
                "rows": differences.unexpected_count,
                "offsets": _list_offsets(differences.unexpected),
                "keys": _list_keys(differences.unexpected_keys),
            },
            "not_compared": list(self.not_compared),
            "dead_letters": self.skipped.dead_letters,
            "tolerated": self.skipped.tolerated,
            "dropped": self.skipped.dropped,
        }


def _list_offsets(spans: Sequence[OffsetSpan]) -> list[dict[str, Any]]:
    return [
        {
            "topic": span.group.topic,
            "partition": span.group.partition,
            "first": span.first,
            "last": span.last,
        }
        for span in spans
    ]


def _list_source_records(spans: Sequence[SourceSpan]) -> list[dict[str, Any]]:
    return [
        {
            "partition": span.partition.as_dict(),
            "other_partitions": span.other_partitions,
            "after": None if span.after is None else dict(span.after),
            "first": span.first,
            "last": span.last,
        }
        for span in spans
    ]


def _list_keys(keys: Sequence[RowKey]) -> list[dict[str, Any]]:
    return [{"table": key.table, "key": _parse_key(key.key)} for key in keys]


def _parse_key(text: str) -> Any:
    """Return the columns of a key, or the text of a key that has no columns."""
    try:
        columns = json.loads(text)
    except ValueError:
        return text
    return columns if isinstance(columns, dict) else text


def format_lines(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show a proof with a result to users; `state` is the REST response."""
    result = state["result"]
    started = datetime.fromtimestamp(state["started_ms"] / 1000, UTC)
    kinds = [name for name in ("missing", "repeated", "unexpected") if result[name] is not None]
    counts = [f"{result[name]['rows']:,} {name}" for name in kinds]
    others = (("dead_letters", "dead letters"), ("tolerated", "tolerated errors"), ("dropped", "dropped"))
    counts += [f"{result[key]:,} {label}" for key, label in others if result[key]]
    is_proved = not any(result[name]["rows"] for name in kinds)
    verdict = "proved" if is_proved else "different"
    yield f"{verdict} {format_scope(state)} ({started:%Y-%m-%d %H:%M} UTC): {', '.join(counts)}"
    for name in kinds:
        if positions := format_positions(result[name]):
            yield f"{name}: {positions}"
    if result["unexpected"] is not None and result["unexpected"]["rows"] and result["source_offsets"] is None:
        yield f"rows of the target that equal no record's row: {result['unexpected']['rows']:,}"
    if result["partial"]:
        yield _format_partial(state)
    if not_compared := format_not_compared(result):
        yield f"not compared: {not_compared}"


def format_not_compared(result: Mapping[str, Any]) -> str:
    """Return the first tables and columns that were not compared, from the REST response; empty if there are none."""
    return _shorten(result.get("not_compared", ()))


def format_positions(fields: Mapping[str, Any]) -> str:
    """Return the first positions of missing, repeated or unexpected rows, from the REST response."""
    spans = [_format_offsets(span) for span in fields["offsets"]]
    records = map(_format_source_records, fields.get("source_records", ()))
    return _shorten([*spans, *records, *map(_format_key, fields.get("keys", ()))])


def _format_end(result: Mapping[str, Any]) -> str:
    if result["source_offsets"] is None:
        return ", ".join(f"{_format_partition(each)}@{each['end']:,}" for each in result["partitions"])
    return _shorten(
        [
            f"offset {_to_json(each['offset'])} of {_to_json(each['partition'])}"
            for each in result["source_offsets"]
        ]
    )


def format_scope(state: Mapping[str, Any]) -> str:
    """Return which records were compared, from the REST response, such as `up to orders-0@512`."""
    percent = state.get("sample_percent")  # absent in the responses of older workers
    return f"up to {_format_end(state['result'])}" if percent is None else f"in a sample of {percent:g} %"


def _format_partial(state: Mapping[str, Any]) -> str:
    result = state["result"]
    if result["source_offsets"] is not None:
        return "the source may have changed or deleted records; repeated and unexpected records were not searched"
    if state.get("sample_percent") is None:
        starts = ", ".join(f"{_format_partition(each)}@{each['first']:,}" for each in result["partitions"])
        return f"compared from {starts}; repeated and unexpected rows were not searched"
    spans = [_format_offsets(each | {"last": each["end"] - 1}) for each in result["partitions"]]
    return f"compared {_shorten(spans)}; repeated and unexpected rows were not searched"


def _format_partition(fields: Mapping[str, Any]) -> str:
    return f"{fields['topic']}-{fields['partition']}"


def _format_offsets(fields: Mapping[str, Any]) -> str:
    partition = TopicPartition(fields["topic"], fields["partition"])
    return format_offsets(Span(group=partition, first=fields["first"], last=fields["last"]))


def _format_source_records(fields: Mapping[str, Any]) -> str:
    first, last = fields["first"], fields["last"]
    records = f"record {first:,}" if first == last else f"records {first:,} to {last:,}"
    start = "" if fields["after"] is None else f" after offset {_to_json(fields['after'])}"
    others = f" and {fields['other_partitions']:,} others" if fields["other_partitions"] else ""
    return f"{records}{start} of {_to_json(fields['partition'])}{others}"


def _format_key(fields: Mapping[str, Any]) -> str:
    return f"{fields['table']} {_to_json(fields['key'])}"


def _to_json(fields: Mapping[str, Any] | str) -> str:
    return json.dumps(fields, ensure_ascii=False)


def _shorten(texts: Sequence[str]) -> str:
    """Join texts, at most `SHOWN_SPANS` of them."""
    shown = ", ".join(texts[:SHOWN_SPANS])
    return shown if len(texts) <= SHOWN_SPANS else f"{shown}, …"
