"""Topics of a connector: those that it has used, and those that its config names. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.printable import counted
from web.ui.views.activity.letters import TOPIC_KEY
from web.ui.views.commands import Confirmation
from web.ui.views.copy_as import Request
from web.ui.views.json_values import mapping, texts

_PATTERN_KEY: Final = "topics.regex"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a connector."""

    name: str
    used: bool
    """Whether records were read from it or written to it."""
    role: str
    """What the config says of it: `sink` (it is read), `dead letters`, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """What the page shows."""

    topics: Sequence[Topic]
    used: int
    pattern: str
    """Regular expression by which a sink chooses its topics; empty without one."""


def topics_of(answer: object, config: object, name: str) -> Topics:
    """Return the topics of `GET …/topics` and of the config, sorted."""
    used = set(texts(mapping(mapping(answer).get(name)).get("topics")))
    roles = _roles(mapping(config))
    found = [Topic(each, each in used, roles.get(each, "")) for each in sorted(used | roles.keys())]
    pattern = mapping(config).get(_PATTERN_KEY)
    return Topics(topics=found, used=len(used), pattern=pattern if isinstance(pattern, str) else "")


def reset_request(name: str) -> Request:
    """Return the request that forgets which topics a connector has used."""
    return Request(method="PUT", segments=("connectors", name, "topics", "reset"))


def reset_confirmation(name: str, topics: Topics) -> Confirmation:
    """Return what is asked before the topics are forgotten."""
    return Confirmation(
        question=f"Forget the {counted(topics.used, 'topic')} that {name} has used?",
        effects=(
            "Only this list is emptied: topics, records and offsets stay.",
            "A topic comes back to it with the next record.",
        ),
        button="Forget",
        dangerous=False,
    )


def _roles(config: Mapping[str, Any]) -> dict[str, str]:
    listed = config.get("topics")
    found = {
        each.strip(): "sink"
        for each in (listed.split(",") if isinstance(listed, str) else [])
        if each.strip()
    }
    dead = config.get(TOPIC_KEY)
    if isinstance(dead, str) and dead.strip():
        found[dead.strip()] = "dead letters"
    return found
