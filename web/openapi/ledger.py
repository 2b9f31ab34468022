"""Schema of `/connectors/{c}/ledger`, Kraal's addition to Connect."""

from __future__ import annotations

from typing import Any, Final

from web.openapi.operation import Schema
from web.openapi.shapes import NULLABLE_TEXT, NUMBER, TEXT, list_of, object_of


def _describe(schema: Schema, description: str) -> dict[str, Any]:
    return {**schema, "description": description}


_FIELDS: Final[Schema] = {"type": "object", "additionalProperties": True}
_POSITION: Final[Schema] = {
    "type": ["integer", "object", "null"],
    "additionalProperties": True,
    "description": "An offset of a topic partition, or the offset of a source; null before the first offset.",
}
_TASK: Final = object_of(
    {
        "task": NUMBER,
        "batches": NUMBER,
        "read": NUMBER,
        "written": NUMBER,
        "dropped": _describe(NUMBER, "Records that transforms dropped."),
        "dead_letters": NUMBER,
        "tolerated": _describe(NUMBER, "Records that were skipped without a dead letter."),
        "batches_without_read": _describe(NUMBER, "Batches whose records are not part of `read`."),
        "batches_without_written": _describe(NUMBER, "Batches whose records are not part of `written`."),
        "breaks": _describe(
            list_of(object_of({"ranges": TEXT, "reason": TEXT, "time_ms": NUMBER})),
            "The latest batches whose records are not all accounted for, and ranges that were left out.",
        ),
        "break_count": NUMBER,
    }
)
_PARTITION: Final = object_of(
    {
        "partition": _FIELDS,
        "since": _POSITION,
        "end": _POSITION,
        "repeated": _describe(NUMBER, "Offsets of a sink that were delivered again."),
        "uncounted": _describe(
            list_of(object_of({"start": _POSITION, "end": _POSITION})),
            "The latest ranges that no batch covers, for example because a worker was killed.",
        ),
        "uncounted_count": NUMBER,
    }
)
LEDGER: Final[Schema] = object_of(
    {
        "connector": TEXT,
        "problem": _describe(
            NULLABLE_TEXT, "Why totals may be missing: the ledger cannot be read or written."
        ),
        "tasks": list_of(_TASK),
        "partitions": list_of(_PARTITION),
    }
)
