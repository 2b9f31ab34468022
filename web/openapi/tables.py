"""Schema of `/connectors/{c}/tables`, Kraal's addition to Connect."""

from __future__ import annotations

from typing import Any, Final

from web.openapi.operation import Schema
from web.openapi.shapes import NULLABLE_TEXT, NUMBER, TEXT, list_of, object_of

_NULLABLE_NUMBER: Final[Schema] = {"type": ["integer", "null"]}


def _describe(schema: Schema, description: str) -> dict[str, Any]:
    return {**schema, "description": description}


_OFFSET: Final = object_of({"topic": TEXT, "partition": NUMBER, "offset": NUMBER})
_COMMIT: Final = object_of(
    {
        "version": TEXT,
        "time_ms": _NULLABLE_NUMBER,
        "operation": TEXT,
        "offsets": _describe(
            {"type": ["array", "null"], "items": _OFFSET},
            "The next offsets of the connector that the commit contains; null for commits of other writers, and for "
            "the creation of a Delta table.",
        ),
        "rows_added": _NULLABLE_NUMBER,
        "rows_updated": _NULLABLE_NUMBER,
        "rows_deleted": _NULLABLE_NUMBER,
        "files_added": _NULLABLE_NUMBER,
        "files_removed": _NULLABLE_NUMBER,
    },
    description="A commit of any writer. Counts are null if the table does not contain them.",
)
_SCHEMA_CHANGE: Final = object_of(
    {
        "record": _describe(TEXT, "The record that required the change, as `topic-partition@offset`."),
        "column": _describe(TEXT, "The column; a nested field has a path such as `address.street`."),
        "old_type": _describe(NULLABLE_TEXT, "Null for a new column."),
        "new_type": TEXT,
        "version": TEXT,
        "time_ms": _NULLABLE_NUMBER,
    }
)
_PARTITION: Final = object_of(
    {
        "topic": TEXT,
        "partition": NUMBER,
        "task": NUMBER,
        "offset": _describe(
            _NULLABLE_NUMBER, "The next offset, as the table contains it; null if it has none."
        ),
        "lag_records": _describe(
            _NULLABLE_NUMBER, "Offsets up to the end of the partition; null if unknown."
        ),
        "lag_ms": _describe(
            _NULLABLE_NUMBER,
            "Maximum age of the first record that the table does not contain; null if unknown.",
        ),
    }
)
_TOTALS: Final = object_of(
    {
        "commits": NUMBER,
        "rows_added": NUMBER,
        "rows_updated": NUMBER,
        "rows_deleted": NUMBER,
        "files_added": NUMBER,
        "files_removed": NUMBER,
        "conflicts": _describe(NUMBER, "Commits that were repeated because another writer had committed."),
        "schema_changes": NUMBER,
        "commit_ms": _describe(NUMBER, "Total duration of the commits."),
    },
    description="Totals of the tasks since each of them was started.",
)
_TABLE: Final = object_of(
    {
        "table": TEXT,
        "format": TEXT,
        "version": _describe(NULLABLE_TEXT, "Null if the table does not exist yet."),
        "reported_ms": NUMBER,
        "rows": _NULLABLE_NUMBER,
        "files": _NULLABLE_NUMBER,
        "size_bytes": _NULLABLE_NUMBER,
        "columns": list_of(object_of({"name": TEXT, "type": TEXT})),
        "partitions": list_of(_PARTITION),
        "commits": _describe(list_of(_COMMIT), "The latest commits, newest first."),
        "schema_changes": _describe(
            list_of(_SCHEMA_CHANGE), "The latest changes of the schema, newest first."
        ),
        "totals": _TOTALS,
    }
)
TABLES: Final[Schema] = object_of(
    {
        "connector": TEXT,
        "tables": _describe(
            list_of(_TABLE), "Tables that the tasks have reported; empty for other connectors."
        ),
        "silent": _describe(list_of(TEXT), "Workers of the connector's tasks that did not respond."),
    }
)
