"""Topic checks of a pass: it ensures topics before it passes records on, and reports failures.

The implementation (`kraal.engine.source.topics`) has a Kafka client, which Spark's Python processes load only for
connectors that create topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from kraal.engine.records.steps import TopicTrouble
from kraal.plugins.api import RetriableError

Ensure = Callable[[Iterable[str]], None]
"""Ensures that topics exist; may block. Raises RetriableError and TopicFailed."""


class Gate(Protocol):
    """Checks topics for a pass. Can be pickled."""

    def begin_pass(self) -> Ensure:
        """Return a function that ensures topics during one pass, each once."""


class TopicFailed(Exception):
    """A topic cannot be looked up or created, and a retry does not help."""


class TopicsCancelled(Exception):
    """The run was cancelled during a topic lookup."""


def ensure_topics(ensure: Ensure, names: Iterable[str]) -> TopicTrouble | None:
    """Ensure topics in a pass; return the failure, for the worker to raise (`raise_trouble`)."""
    try:
        ensure(names)
    except RetriableError as exc:
        return TopicTrouble(str(exc), passes=True)
    except TopicFailed as exc:
        return TopicTrouble(str(exc), passes=False)
    return None


def raise_trouble(trouble: TopicTrouble | None) -> None:
    """Raise the failure that a pass reported in its summary: RetriableError or TopicFailed."""
    if trouble is not None:
        raise (RetriableError if trouble.passes else TopicFailed)(trouble.text)
