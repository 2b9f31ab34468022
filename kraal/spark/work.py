"""What a run drives: the work of a source or a sink, and the outcome of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from kraal.offsets import Offset, SourcePartition
from kraal.plugins.api import RetriableError
from kraal.spark.api import BatchDone, Committed, Failed, Stopped
from kraal.spark.trace import brokers_away

Outcome = BatchDone | Committed | None | BaseException
"""What a launched job came to; None: nothing after all, ask again."""

Launch = Callable[[Callable[[Outcome], None]], None]
"""Starts a job without waiting for it; the outcome comes from any thread."""


class Work(Protocol):
    """What a source or a sink does in its run. Never called by two threads at once, `cancel` excepted."""

    @property
    def poll_interval_s(self) -> float:
        """How often to poll while there is nothing."""

    @property
    def polls_idle(self) -> bool:
        """Whether `poll` is wanted also while nobody asks for a batch."""

    @property
    def owes_commit(self) -> bool:
        """Whether a batch was reported that must be committed before the run may end gracefully."""

    @property
    def runs_on(self) -> bool:
        """Whether records flow also while nobody asks: then `poll(asked=False)` gives what ends that, for a pause."""

    def open(self) -> str | None:
        """Open the plugin; return its version. Pool thread."""

    def poll(self, *, asked: bool) -> Launch | None:
        """Look for work; milliseconds. Poller thread."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a sink's offsets. Pool thread."""

    def close(self) -> None:
        """Close the plugin. Pool thread."""

    def cancel(self) -> None:
        """Give up the running job. Must not wait; may come twice."""


def outcome_of(function: Callable[[], Outcome]) -> Outcome:
    """Run a job's code; whatever it raises, also SystemExit, is its outcome.

    Brokers that did not answer a client of the JVM make a RetriableError: a job that failed for them is run again, for
    Spark's readers give up after minutes, and its writers when a config's `delivery.timeout.ms` is over.
    Thread: may ask the JVM for an error's causes.
    """
    try:
        return function()
    except BaseException as error:  # noqa: BLE001 - the border to plugin code
        why = brokers_away(error)
        if why is None:
            return error
        again = RetriableError(why)
        again.__cause__ = error
        return again


class Phase(Enum):
    """What a run is doing."""

    OPENING = auto()
    AWAITING_SPARK = auto()
    IDLE = auto()
    POLLING = auto()
    WORKING = auto()
    RETRYING = auto()
    CLOSING = auto()
    OVER = auto()


@dataclass(slots=True)
class Wishes:
    """What was asked for and is not done yet."""

    asked: bool = False
    stop: bool = False
    hold: bool = False
    commit: Mapping[SourcePartition, Offset] | None = None
    end: Failed | Stopped | None = None
    """Set once the run's last event is known."""

    @property
    def gives_up(self) -> bool:
        """Whether what is tried again need not be."""
        return self.end is not None or (self.stop and self.commit is None)

    def must_rest(self, work: Work) -> bool:
        """Whether records flow by themselves, which has to end before a pause or a stop."""
        return (self.hold or self.stop) and self.end is None and work.runs_on

    def may_close(self, work: Work) -> bool:
        """Whether the run is over, or is to stop and owes nothing."""
        owes = self.commit is not None or work.owes_commit or self.must_rest(work)
        return self.end is not None or (self.stop and not owes)
