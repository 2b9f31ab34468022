"""Repeats proofs of delivery at the interval of each connector (`proof.interval.ms`).

A connector is proved by the worker that runs it. A worker runs one proof at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self

from kraal.config.connector.proof import MAX_TIME_SHARE, parse_proof_interval
from kraal.core.errors import Conflict
from kraal.core.ids import ConnectorName, State

if TYPE_CHECKING:
    from actors.assembly import Assembly
    from kraal.worker.proofs import Proofs

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 5.0

Period = tuple[float, float]
"""The start and the end of a proof, in seconds since the epoch."""


def find_due_connector(
    intervals_s: Mapping[ConnectorName, float],
    first_running_s: Mapping[ConnectorName, float],
    proofs: Mapping[ConnectorName, Period],
    now_s: float,
) -> ConnectorName | None:
    """Return the connector whose next proof is the most overdue; None if none is due. Pure.

    `first_running_s` is when each connector was first seen running; `proofs` are the latest proofs. Times are in
    seconds since the epoch.
    """
    due_s: dict[ConnectorName, float] = {}
    for name, interval_s in intervals_s.items():
        if name in proofs:
            start_s, end_s = proofs[name]
            due_s[name] = max(start_s + interval_s, start_s + (end_s - start_s) / MAX_TIME_SHARE)
        else:
            due_s[name] = first_running_s.get(name, now_s) + interval_s
    first = min(due_s, key=lambda name: (due_s[name], name), default=None)
    return first if first is not None and due_s[first] <= now_s else None


class ProofSchedule:
    """Starts the proofs of one worker, as a context manager that runs a thread."""

    def __init__(self, proofs: Proofs | None, assembly: Assembly) -> None:
        """Create a schedule; without `proofs`, it does nothing."""
        self._proofs, self._published, self._metrics = proofs, assembly.published, assembly.metrics
        self._first_running_s: Mapping[ConnectorName, float] = {}
        """When each connector with an interval was first seen running on this worker, in seconds since the epoch."""
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proof-schedule", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        if self._proofs is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Request the thread to stop, without waiting for it. A running proof continues."""
        self._closed.set()

    def start_due_proof(self) -> None:
        """Start the proof that is due, if any, and remove outdated results."""
        proofs = self._proofs
        if proofs is None:
            return
        now_s, snapshot = proofs.wall_ms() / 1000, self._published.latest
        proofs.forget(snapshot.config.connectors)
        intervals_s = {
            name: interval_s
            for name, entry in snapshot.config.connectors.items()
            if (interval_s := parse_proof_interval(entry.config)) is not None
        }
        if intervals_s:
            states = self._metrics.current().instance_states
            intervals_s = {
                name: interval_s
                for name, interval_s in intervals_s.items()
                if name in states and states[name].state is State.RUNNING
            }
        self._first_running_s = {name: self._first_running_s.get(name, now_s) for name in intervals_s}
        periods = {
            proof.connector: (proof.started_ms / 1000, (proof.ended_ms or proof.started_ms) / 1000)
            for proof in proofs.states()
        }
        due = find_due_connector(intervals_s, self._first_running_s, periods, now_s)
        if due is not None:
            entry = snapshot.config.connectors[due]
            is_sink = snapshot.types.get(due) == "sink"
            proofs.start(due, entry.config, None if is_sink else entry.tasks)

    def _run(self) -> None:
        while not self._closed.wait(CHECK_INTERVAL_S):
            try:
                self.start_due_proof()
            except Conflict:
                continue  # another proof is running; the next check follows soon
            except Exception:
                log.warning("Failed to start a scheduled proof", exc_info=True)
