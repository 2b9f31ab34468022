"""Topic creation during a pass: the pass creates missing topics before it yields their records, and reports failures.

The implementation (`kraal.engine.source.topics`) has a Kafka client, which Spark's Python workers import only for
connectors that create topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kraal.engine.records.steps import TopicError
from kraal.plugins.api import RetriableError

Ensure = Callable[[Iterable[str]], None]
"""Creates topics that do not exist; may block. Raises RetriableError and TopicFailed."""


class Gate(Protocol):
    """Creates missing topics for a pass. Picklable."""

    def begin_pass(self) -> Ensure:
        """Return a function that creates missing topics during one pass. It looks up each topic only once."""


class TopicFailed(Exception):
    """A topic cannot be looked up or created, and a retry would fail as well."""


class TopicLookupCancelled(Exception):
    """The run was cancelled during a topic lookup."""


def ensure_topics(ensure: Ensure, names: Iterable[str]) -> TopicError | None:
    """Create missing topics. Return the error, if any, which the worker raises (`raise_topic_error`)."""
    try:
        ensure(names)
    except RetriableError as exc:
        return TopicError(str(exc), is_retriable=True)
    except TopicFailed as exc:
        return TopicError(str(exc), is_retriable=False)
    return None


def raise_topic_error(topic_error: TopicError | None) -> None:
    """Raise the error that a pass has reported in its summary, as RetriableError or TopicFailed."""
    if topic_error is not None:
        raise (RetriableError if topic_error.is_retriable else TopicFailed)(topic_error.text)
