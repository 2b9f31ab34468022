"""The result of a proof, as JSON for REST and as lines for users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from kraal.core.offsets import TopicPartition
from kraal.proof.differences import Differences, OffsetSpan

SHOWN_SPANS: Final = 5
"""Maximum number of spans in a line for users."""


class Verdict(StrEnum):
    """The verdict of a proof."""

    PROVED = "PROVED"
    """The target has the rows of all committed records, and no others."""
    DIFFERENT = "DIFFERENT"
    """Rows are missing, repeated or unexpected."""
    UNDECIDED = "UNDECIDED"
    """The target or the topics could not be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRecords:
    """The number of records that the target must not have; None if it was not counted."""

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
    """The compared offsets of each partition, up to the committed offset."""
    expected_count: int
    """Number of rows that the target must have."""
    stored_count: int
    """Number of rows in the target."""
    differences: Differences
    skipped: SkippedRecords
    is_partial: bool = False
    """Whether the target may have rows of records that were not compared. Then only missing rows were judged."""

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
            "partial": self.is_partial,
            "expected_rows": self.expected_count,
            "stored_rows": self.stored_count,
            "missing": {"rows": differences.missing_count, "offsets": _list_spans(differences.missing)},
            "repeated": None
            if self.is_partial
            else {"rows": differences.repeated_count, "offsets": _list_spans(differences.repeated)},
            "unexpected": None if self.is_partial else {"rows": differences.unexpected_count},
            "dead_letters": self.skipped.dead_letters,
            "tolerated": self.skipped.tolerated,
            "dropped": self.skipped.dropped,
        }


def _list_spans(spans: Sequence[OffsetSpan]) -> list[dict[str, Any]]:
    return [
        {
            "topic": span.partition.topic,
            "partition": span.partition.partition,
            "first": span.first,
            "last": span.last,
        }
        for span in spans
    ]


def format_lines(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show a proof with a result to users; `state` is the REST response."""
    result = state["result"]
    started = datetime.fromtimestamp(state["started_ms"] / 1000, UTC)
    kinds = [name for name in ("missing", "repeated", "unexpected") if result[name] is not None]
    counts = [f"{result[name]['rows']:,} {name}" for name in kinds]
    others = (("dead_letters", "dead letters"), ("tolerated", "tolerated errors"), ("dropped", "dropped"))
    counts += [f"{result[key]:,} {label}" for key, label in others if result[key]]
    is_proved = not any(result[name]["rows"] for name in kinds)
    ends = ", ".join(f"{each['topic']}-{each['partition']}@{each['end']:,}" for each in result["partitions"])
    yield f"{'proved' if is_proved else 'different'} up to {ends} ({started:%Y-%m-%d %H:%M} UTC): {', '.join(counts)}"
    for name in kinds:
        if spans := result[name].get("offsets"):
            yield f"{name}: {_format_spans(spans)}"
    if result["unexpected"] is not None and result["unexpected"]["rows"]:
        yield f"rows of the target that equal no record's row: {result['unexpected']['rows']:,}"
    if result["partial"]:
        starts = ", ".join(
            f"{each['topic']}-{each['partition']}@{each['first']:,}" for each in result["partitions"]
        )
        yield f"compared from {starts}; additional rows in the target were not judged"


def _format_spans(spans: Sequence[Mapping[str, Any]]) -> str:
    shown = ", ".join(
        str(
            OffsetSpan(
                partition=TopicPartition(span["topic"], span["partition"]),
                first=span["first"],
                last=span["last"],
            )
        )
        for span in spans[:SHOWN_SPANS]
    )
    return shown if len(spans) <= SHOWN_SPANS else f"{shown}, …"
