"""Schemas of dead letters, which are inlined into the operations."""

from __future__ import annotations

from typing import Final

from web.openapi.operation import Schema
from web.openapi.shapes import NULLABLE_TEXT, NUMBER, TEXT, list_of, map_of, object_of

MAX_SHOWN: Final = 100
MAX_REPLAYED: Final = 10_000
MAX_DIGITS: Final = 18
"""Maximum number of digits of a partition or an offset."""

_BASE64: Final[Schema] = {"type": "string", "contentEncoding": "base64"}
_HEADER: Final = object_of(
    {"key": TEXT, "value": NULLABLE_TEXT, "value_base64": _BASE64}, optional=("value", "value_base64")
)
_ERROR: Final[Schema] = {
    "type": ["object", "null"],
    "description": "Connect's error headers by name; null if the letter has none.",
    "additionalProperties": {"type": ["string", "integer", "null"]},
}
_FROM: Final[Schema] = {
    **map_of(NUMBER),
    "description": "Offset by partition at which the replay would start; only for a dry run.",
}
_LETTER: Final = object_of(
    {
        "topic": TEXT,
        "partition": NUMBER,
        "offset": NUMBER,
        "timestamp": {
            "type": ["integer", "null"],
            "description": "Timestamp of the failed record in milliseconds since the epoch.",
        },
        "key": NULLABLE_TEXT,
        "key_base64": _BASE64,
        "value": NULLABLE_TEXT,
        "value_base64": _BASE64,
        "headers": list_of(_HEADER),
        "error": _ERROR,
        "truncated": {
            **map_of(NUMBER),
            "description": "Full sizes in bytes of the truncated parts: `key`, `value`, `headers`, `error`.",
        },
    },
    optional=("key", "key_base64", "value", "value_base64"),
    description="A dead letter; binary values are in fields named `…_base64`.",
)

DEAD_LETTERS: Final[Schema] = object_of(
    {
        "topic": TEXT,
        "letters": {
            **NUMBER,
            "description": "Number of offsets in the topic, including the letters of other connectors.",
        },
        "left_to_replay": {**NUMBER, "description": "Number of offsets not yet replayed."},
        "searched": {
            **NUMBER,
            "description": "Number of offsets searched. The search starts at the latest offsets.",
        },
        "shown": {**list_of(_LETTER), "description": "Letters of the connector, latest first."},
    }
)
REPLAY: Final[Schema] = object_of(
    {
        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_REPLAYED, "default": MAX_REPLAYED},
        "dry_run": {"type": "boolean", "default": False, "description": "Write nothing."},
        "from": {
            "type": "object",
            "propertyNames": {"pattern": f"^[0-9]{{1,{MAX_DIGITS}}}$"},
            "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 10**MAX_DIGITS - 1},
            "description": "The `from` of a dry run. If the replay would start elsewhere, nothing is written (409).",
        },
    },
    optional=("limit", "dry_run", "from"),
)
_TARGET: Final = object_of(
    {
        "partition": NUMBER,
        "offset": NUMBER,
        "to_topic": TEXT,
        "to_partition": {
            "type": ["integer", "null"],
            "description": "Null if the key determines the partition.",
        },
    }
)
REPLAY_RESULT: Final[Schema] = object_of(
    {
        "topic": TEXT,
        "dry_run": {"type": "boolean"},
        "from": _FROM,
        "written": {**map_of(NUMBER), "description": "Number of letters by target topic."},
        "targets": {
            **list_of(_TARGET),
            "description": f"The first {MAX_SHOWN} letters with their targets.",
        },
        "left_to_replay": {**NUMBER, "description": "Number of offsets not yet replayed."},
    },
    optional=("from",),
)
