"""Schema of `GET /connectors/{c}/explain`, Kraal's addition to Connect."""

from __future__ import annotations

from typing import Final

from kraal.cluster.assignment.placement import PlacedBy
from kraal.cluster.assignment.unassigned import Wait
from kraal.cluster.views.placements import STANDALONE, UNPLANNED
from kraal.core.ids import Json
from kraal.journal.events import EventKind
from kraal.journal.explanations import ReasonKind
from web.openapi.operation import Schema
from web.openapi.shapes import NULLABLE_TEXT, NUMBER, TEXT, list_of, object_of


def _describe(schema: Schema, description: str) -> dict[str, Json]:
    return {**schema, "description": description}


_NULLABLE_NUMBER: Final[Schema] = {"type": ["integer", "null"]}
_PLACEMENTS: Final = [*map(str, PlacedBy), *map(str, Wait), STANDALONE, UNPLANNED]
_PLACEMENT: Final = object_of(
    {
        "kind": {"type": "string", "enum": [*_PLACEMENTS]},
        "worker": _describe(NULLABLE_TEXT, "URL of the assigned worker; null if unassigned."),
        "generation": _describe(
            _NULLABLE_NUMBER, "Generation in which the instance was assigned or started waiting."
        ),
        "why": _describe(TEXT, "The decision, as a sentence."),
        "rebalance": _describe(
            NULLABLE_TEXT, "Reason for the rebalance of that generation; null if no longer known."
        ),
        "until_ms": _describe(
            _NULLABLE_NUMBER,
            "Time until which lost work waits for its previous worker, in milliseconds since the epoch.",
        ),
    },
    description="Null if the leader did not respond or is an Apache Kafka worker.",
    nullable=True,
)
_INSTANCE: Final[dict[str, Schema]] = {
    "state": _describe(NULLABLE_TEXT, "Null if no worker has reported a state."),
    "worker_id": _describe(NULLABLE_TEXT, "The worker that reported the state."),
    "generation": _NULLABLE_NUMBER,
    "placement": _PLACEMENT,
    "reasons": _describe(
        list_of(
            object_of({"kind": {"type": "string", "enum": [str(kind) for kind in ReasonKind]}, "text": TEXT})
        ),
        "Reasons for the state of the instance.",
    ),
    "events": _describe(
        list_of(
            object_of(
                {
                    "ms": _describe(NUMBER, "Milliseconds since the epoch."),
                    "worker_id": _describe(TEXT, "The worker that recorded the event."),
                    "kind": {"type": "string", "enum": [str(kind) for kind in EventKind]},
                    "text": TEXT,
                    "by": _describe(TEXT, "Author of the request; empty if there was none."),
                }
            )
        ),
        "Latest events of the instance, oldest first.",
    ),
}
EXPLANATION: Final[Schema] = object_of(
    {
        "name": TEXT,
        "type": TEXT,
        "target": {"type": "string", "enum": ["STARTED", "PAUSED", "STOPPED"]},
        "worker_id": _describe(TEXT, "The worker that received the request."),
        "leader": NULLABLE_TEXT,
        "generation": NUMBER,
        "connector": object_of(_INSTANCE),
        "tasks": list_of(object_of({"id": NUMBER, **_INSTANCE})),
        "silent": _describe(list_of(TEXT), "Workers that did not respond."),
    }
)
