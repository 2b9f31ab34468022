"""What a pass over records does about their topics: it asks before it hands records on, and tells what is in the way.

Whom it asks (`kraal.spark.source_topics`) has a Kafka client, which Spark's Python processes load only for connectors
that create topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kraal.plugins.api import RetriableError
from kraal.spark.records.steps import TopicTrouble

Ensure = Callable[[Iterable[str]], None]
"""Sees to it that topics are there; may wait. Raises RetriableError and TopicFailed."""


class Gate(Protocol):
    """What a pass asks. Can be pickled."""

    def opened(self) -> Ensure:
        """Return what sees to topics in one pass, each once."""


class TopicFailed(Exception):
    """A topic cannot be looked up or created, and that will stay so."""


class TopicsCancelled(Exception):
    """The run was cancelled while a topic was asked for."""


def trouble_of(ensure: Ensure, names: Iterable[str]) -> TopicTrouble | None:
    """See to topics in a pass; return what is in the way, for the worker to raise (`raise_trouble`)."""
    try:
        ensure(names)
    except RetriableError as exc:
        return TopicTrouble(str(exc), passes=True)
    except TopicFailed as exc:
        return TopicTrouble(str(exc), passes=False)
    return None


def raise_trouble(trouble: TopicTrouble | None) -> None:
    """Raise what a pass could not say but in its summary: RetriableError or TopicFailed."""
    if trouble is not None:
        raise (RetriableError if trouble.passes else TopicFailed)(trouble.text)
