"""Schema of `/connectors/{c}/proof`, Kraal's addition to Connect."""

from __future__ import annotations

from typing import Any, Final

from kraal.proof.result import RUNNING, Verdict
from web.openapi.operation import Schema
from web.openapi.shapes import NULLABLE_TEXT, NUMBER, TEXT, list_of, object_of

_NULLABLE_NUMBER: Final[Schema] = {"type": ["integer", "null"]}


def _describe(schema: Schema, description: str) -> dict[str, Any]:
    return {**schema, "description": description}


_OFFSETS: Final = list_of(object_of({"topic": TEXT, "partition": NUMBER, "first": NUMBER, "last": NUMBER}))
_FIELDS: Final[Schema] = {"type": "object", "additionalProperties": True}
_KEYS: Final = list_of(
    object_of({"table": TEXT, "key": {"type": ["object", "string"], "additionalProperties": True}})
)
_RESULT: Final = object_of(
    {
        "partitions": _describe(
            list_of(object_of({"topic": TEXT, "partition": NUMBER, "first": NUMBER, "end": NUMBER})),
            "Compared offsets: from `first` up to `end`, which is the committed offset of a sink.",
        ),
        "source_offsets": _describe(
            {
                "type": ["array", "null"],
                "items": object_of({"partition": _FIELDS, "offset": _FIELDS}),
            },
            "The offsets up to which the records of a source were compared; null for a sink.",
        ),
        "partial": {
            "type": "boolean",
            "description": "Whether there may be stored rows of records that were not compared. Then only missing rows "
            "were searched.",
        },
        "expected_rows": NUMBER,
        "stored_rows": NUMBER,
        "missing": object_of(
            {
                "rows": NUMBER,
                "offsets": _describe(_OFFSETS, "The records of a sink's topics."),
                "source_records": _describe(
                    list_of(
                        object_of(
                            {
                                "partition": _FIELDS,
                                "other_partitions": NUMBER,
                                "after": {"type": ["object", "null"], "additionalProperties": True},
                                "first": NUMBER,
                                "last": NUMBER,
                            }
                        )
                    ),
                    "The records of a source: the numbers of the first and the last record after a source offset, "
                    "from 1.",
                ),
                "keys": _describe(_KEYS, "The primary keys of rows in the tables of a source."),
            }
        ),
        "repeated": object_of({"rows": NUMBER, "offsets": _OFFSETS}, nullable=True),
        "unexpected": object_of(
            {
                "rows": _describe(NUMBER, "Number of stored rows that equal no record's row."),
                "offsets": _describe(_OFFSETS, "These records in the topics of a source."),
                "keys": _describe(
                    _KEYS, "The keys of rows that the tables of a source do not contain in this state."
                ),
            },
            nullable=True,
        ),
        "not_compared": _describe(
            list_of(TEXT), "Tables and columns that were not compared, with the reasons."
        ),
        "dead_letters": _describe(_NULLABLE_NUMBER, "Null if not counted."),
        "tolerated": _describe(_NULLABLE_NUMBER, "Records with tolerated errors; null if not counted."),
        "dropped": _describe(_NULLABLE_NUMBER, "Records that transforms dropped; null if not counted."),
    },
    nullable=True,
)
PROOF: Final[Schema] = object_of(
    {
        "connector": TEXT,
        "state": {"type": "string", "enum": [RUNNING, *map(str, Verdict)]},
        "started_ms": _describe(NUMBER, "Milliseconds since the epoch."),
        "ended_ms": _NULLABLE_NUMBER,
        "since_ms": _describe(
            _NULLABLE_NUMBER, "Time of the first compared records; null if all records were compared."
        ),
        "sample_percent": _describe(
            {"type": ["number", "null"]}, "Share of compared records; null if all were compared."
        ),
        "reason": _describe(NULLABLE_TEXT, "Why the state is UNDECIDED."),
        "result": _RESULT,
    }
)
