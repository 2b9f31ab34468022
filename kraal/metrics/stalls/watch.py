"""Stall watch: logs each stall when it begins, changes its kind or ends, and detects sinks without topics.

The thread of the watch checks every five seconds. While all tasks of a sink on this worker run without partitions, it
also looks up the cluster's topics, every `LOOKUP_INTERVAL_S` and whenever the set of these sinks changes.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, Self

from kraal.core.logging import use_subject
from kraal.metrics.stalls.subscriptions import EmptySink, empty_sinks, find_no_partitions_reasons

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Published
    from kraal.metrics.stalls.detection import StallDetection

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 5.0
LOOKUP_INTERVAL_S: Final = 30.0
MAX_LINES: Final = 20
"""Maximum number of lines logged per check."""


class StallWatch:
    """The stall watch of one worker, as a context manager that runs its thread."""

    def __init__(
        self,
        detection: StallDetection,
        published: Published,
        topics: Callable[[], Collection[str]],
        on_health_change: Callable[[], object] = tuple,
    ) -> None:
        """Create the watch. `topics` returns the names of the cluster's topics; it blocks and may raise any error.

        `on_health_change` is called on the watch thread when a component of the worker has been down for longer than
        the stall timeout, and when it has recovered.
        """
        self._detection, self._published, self._topics = detection, published, topics
        self._on_health_change = on_health_change
        self._kinds: Mapping[str, str] = {}
        """Kinds of the logged stalls by subject."""
        self._lookup_s = -math.inf
        """Time of the last topic lookup, in monotonic seconds."""
        self._sinks: list[EmptySink] = []
        """The sinks of the latest lookup."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stall-watch", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread; a lookup in progress is not interrupted."""
        self._closed.set()

    def check(self) -> None:
        """Run one check."""
        try:
            self._look_up_topics()
        except Exception as error:  # noqa: BLE001 - brokers may be unavailable; the next check follows soon
            log.info("Failed to look up the topics of sinks without partitions: %s", error)
        causes = self._detection.causes(self._published.latest)
        before, self._kinds = self._kinds, {subject: kind for subject, (kind, _) in causes.items()}
        new_stalls = [subject for subject, kind in self._kinds.items() if before.get(subject) != kind]
        for subject in new_stalls[:MAX_LINES]:
            with use_subject(subject):
                log.warning("Stalled: %s: %s", subject, causes[subject][1])
        if len(new_stalls) > MAX_LINES:
            log.warning("Stalled: %d more; GET /health lists them", len(new_stalls) - MAX_LINES)
        ended_stalls = sorted(before.keys() - causes.keys())
        for subject in ended_stalls[:MAX_LINES]:
            with use_subject(subject):
                log.info("No longer stalled: %s", subject)
        if len(ended_stalls) > MAX_LINES:
            log.info("No longer stalled: %d more", len(ended_stalls) - MAX_LINES)
        if _components_down(before) != _components_down(self._kinds):
            self._on_health_change()

    def _look_up_topics(self) -> None:
        """Look up topics if required, and publish the reasons why sink tasks have no partitions."""
        metrics = self._detection.metrics
        sinks = empty_sinks(self._published.latest, metrics.current())
        if metrics.stall_timeout_s <= 0 or not sinks:
            metrics.set_no_partitions_reasons({})
        elif sinks != self._sinks or metrics.time.now() - self._lookup_s >= LOOKUP_INTERVAL_S:
            self._sinks, self._lookup_s = sinks, metrics.time.now()
            metrics.set_no_partitions_reasons(find_no_partitions_reasons(sinks, frozenset(self._topics())))

    def _run(self) -> None:
        while not self._closed.wait(CHECK_INTERVAL_S):
            try:
                self.check()
            except Exception:
                log.warning("Failed to check for stalled tasks", exc_info=True)


def _components_down(kinds: Mapping[str, str]) -> set[str]:
    """Return the subjects of components that are down."""
    return {subject for subject, kind in kinds.items() if kind == "down"}
