"""Authors of requests to this worker, stored until the herder reads the effects of the requests. Thread-safe.

REST registers the author of a request before the request is sent to the herder or another worker, and removes the
author after the response. The herder takes the author when it reads the effect from the log. Effects of forwarded
requests may be read after the response.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kraal.core.errors import ActorDied, StoreError, TimedOut
from kraal.core.ids import Config, ConnectorName, Instance, TargetState

MAX_AUTHORS: Final = 1_000
"""Maximum number of authors; the oldest are dropped."""
REQUEST_TIMEOUT_MS: Final = 120_000
"""Maximum age of an author, in milliseconds."""
FORWARDED_TIMEOUT_MS: Final = 10_000
"""Maximum age of an author after the response to a forwarded request, in milliseconds."""


@dataclass(frozen=True, slots=True)
class ConfigWritten:
    """A config was created or replaced. `config` contains the requested values, and None for removed keys."""

    name: ConnectorName
    config: Config = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectorDeleted:
    """A connector was deleted."""

    name: ConnectorName


@dataclass(frozen=True, slots=True)
class TargetStateSet:
    """A connector was paused, resumed or stopped."""

    name: ConnectorName
    target: TargetState


@dataclass(frozen=True, slots=True)
class InstanceRestarted:
    """A connector or a task was restarted; the flags are those of KIP-745."""

    instance: Instance
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True)
class LoggerLevelSet:
    """The level of a logger was set on all workers."""

    namespace: str


@dataclass(frozen=True, slots=True)
class OffsetsChanged:
    """The offsets of a connector were altered or reset."""

    name: ConnectorName


Effect = (
    ConfigWritten | ConnectorDeleted | TargetStateSet | InstanceRestarted | LoggerLevelSet | OffsetsChanged
)


@dataclass(slots=True, eq=False)
class _Author:
    effect: Effect
    by: str
    until_ms: int


class Authors:
    """The authors of requests that this worker received."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._authors: list[_Author] = []

    @contextmanager
    def asking(self, effect: Effect | None, by: str) -> Iterator[Callable[[], None]]:
        """Register an author for the duration of its request, unless `effect` is None.

        The caller must call the yielded function after another worker's response, because the effect of a forwarded
        request may be read later.
        """
        if effect is None:
            yield _noop
            return
        author = _Author(effect, by, self._now_ms() + REQUEST_TIMEOUT_MS)
        keeps_author = False

        def keep_author() -> None:
            nonlocal keeps_author
            keeps_author = True
            author.until_ms = self._now_ms() + FORWARDED_TIMEOUT_MS

        with self._lock:
            self._authors = [*self._authors[-MAX_AUTHORS + 1 :], author]
        try:
            yield keep_author
        except (TimedOut, ActorDied, StoreError):
            keeps_author = True  # the request may nevertheless take effect
            raise
        finally:
            if not keeps_author:
                with self._lock:
                    self._authors = [other for other in self._authors if other is not author]

    def take(self, effect: Effect) -> str | None:
        """Remove and return the author of an effect; None if no request to this worker has the effect."""
        with self._lock:
            now_ms = self._now_ms()
            self._authors = [candidate for candidate in self._authors if now_ms <= candidate.until_ms]
            author = next(
                (candidate for candidate in self._authors if _matches(candidate.effect, effect)), None
            )
            self._authors = [other for other in self._authors if other is not author]
        return None if author is None else author.by


def _noop() -> None:
    """No-op."""


def _matches(requested_effect: Effect, effect: Effect) -> bool:
    if isinstance(requested_effect, ConfigWritten) and isinstance(effect, ConfigWritten):
        return requested_effect.name == effect.name and all(
            effect.config.get(key) == value for key, value in requested_effect.config.items()
        )
    return requested_effect == effect
