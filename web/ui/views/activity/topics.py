"""Topics of a connector: active topics and topics in its config. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.printable import format_count
from web.ui.views.activity.dead_letters import TOPIC_KEY
from web.ui.views.commands import Confirmation
from web.ui.views.copy_as import Request
from web.ui.views.json_values import mapping, texts

_PATTERN_KEY: Final = "topics.regex"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a connector."""

    name: str
    is_active: bool
    """Whether the connector has read or written the topic."""
    role: str
    """Role in the config: `sink` (input of a sink), `dead letters` or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """Content of the topics page."""

    topics: Sequence[Topic]
    active_count: int
    pattern: str
    """Regular expression that selects a sink's topics; empty if there is none."""


def parse_topics(response: object, config: object, name: str) -> Topics:
    """Return the sorted topics from `GET …/topics` and the config."""
    active_topics = set(texts(mapping(mapping(response).get(name)).get("topics")))
    roles = _topic_roles(mapping(config))
    topics = [
        Topic(topic, topic in active_topics, roles.get(topic, ""))
        for topic in sorted(active_topics | roles.keys())
    ]
    pattern = mapping(config).get(_PATTERN_KEY)
    return Topics(
        topics=topics, active_count=len(active_topics), pattern=pattern if isinstance(pattern, str) else ""
    )


def reset_request(name: str) -> Request:
    """Return the request that resets the active topics."""
    return Request(method="PUT", segments=("connectors", name, "topics", "reset"))


def reset_confirmation(name: str, topics: Topics) -> Confirmation:
    """Return the confirmation of a reset of the active topics."""
    return Confirmation(
        question=f"Reset the {format_count(topics.active_count, 'active topic')} of {name}?",
        effects=(
            "Only the list of active topics is cleared; topics, records and offsets are kept.",
            "A topic reappears with its next record.",
        ),
        button="Reset",
        is_dangerous=False,
    )


def _topic_roles(config: Mapping[str, Any]) -> dict[str, str]:
    topic_list = config.get("topics")
    roles = {
        topic.strip(): "sink"
        for topic in (topic_list.split(",") if isinstance(topic_list, str) else [])
        if topic.strip()
    }
    dead_letter_topic = config.get(TOPIC_KEY)
    if isinstance(dead_letter_topic, str) and dead_letter_topic.strip():
        roles[dead_letter_topic.strip()] = "dead letters"
    return roles
