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
from web.openapi.shapes import MAYBE_TEXT, NUMBER, TEXT, list_of, object_of


def _about(schema: Schema, about: str) -> dict[str, Json]:
    return {**schema, "description": about}


_MAYBE_NUMBER: Final[Schema] = {"type": ["integer", "null"]}
_PLACEMENTS: Final = [*map(str, PlacedBy), *map(str, Wait), STANDALONE, UNPLANNED]
_PLACEMENT: Final = object_of(
    {
        "kind": {"type": "string", "enum": [*_PLACEMENTS]},
        "worker": _about(MAYBE_TEXT, "URL of its worker; null: it is not assigned."),
        "generation": _about(_MAYBE_NUMBER, "Generation in which it was assigned, or began to wait."),
        "why": _about(TEXT, "The decision, as a sentence."),
        "rebalance": _about(MAYBE_TEXT, "Reason of that rebalance; null: not known any more."),
        "until_ms": _about(
            _MAYBE_NUMBER, "Until when lost work waits for its worker; milliseconds since the epoch."
        ),
    },
    about="Null: the leader did not answer, or is a worker of Apache Kafka.",
    maybe=True,
)
_INSTANCE: Final[dict[str, Schema]] = {
    "state": _about(MAYBE_TEXT, "Null: no worker has reported one."),
    "worker_id": _about(MAYBE_TEXT, "The worker that reported the state."),
    "generation": _MAYBE_NUMBER,
    "placement": _PLACEMENT,
    "reasons": _about(
        list_of(
            object_of({"kind": {"type": "string", "enum": [str(each) for each in ReasonKind]}, "text": TEXT})
        ),
        "Why it is in its state.",
    ),
    "events": _about(
        list_of(
            object_of(
                {
                    "ms": _about(NUMBER, "Milliseconds since the epoch."),
                    "worker_id": _about(TEXT, "The worker that recorded it."),
                    "kind": {"type": "string", "enum": [str(each) for each in EventKind]},
                    "text": TEXT,
                    "by": _about(TEXT, "Who requested it; empty if it was not requested."),
                }
            )
        ),
        "Its last events, oldest first.",
    ),
}
EXPLANATION: Final[Schema] = object_of(
    {
        "name": TEXT,
        "type": TEXT,
        "target": {"type": "string", "enum": ["STARTED", "PAUSED", "STOPPED"]},
        "worker_id": _about(TEXT, "The worker that was asked."),
        "leader": MAYBE_TEXT,
        "generation": NUMBER,
        "connector": object_of(_INSTANCE),
        "tasks": list_of(object_of({"id": NUMBER, **_INSTANCE})),
        "silent": _about(list_of(TEXT), "Workers that were asked and did not answer."),
    }
)
