"""Keeps a sink's member in its group while a job is running, and delays rebalances until the job's batch is committed.

A short job has no overhead: the run polls the member before and after it. When a job has been running for
`Timing.first_poll_s`, a separate thread polls the member, with its partitions paused, until the batch is committed. A
write may therefore take longer than `max.poll.interval.ms`. A rebalance during this time blocks that thread, in the
client's callback, until the same thread has committed the batch: during a callback, the client blocks commits of other
threads. The group waits for a member for `max.poll.interval.ms`. Shortly before this time ends, the partitions are
released, and the batch is *lost*. `check_owned` then prevents the plugin from publishing its output, and the batch is
not committed. During a rebalance, a batch that waits for a retry is lost at once.

    NONE ──► RUNNING ──► WRITTEN ──► NONE      launched, reported, committed
                │ ▲
                ▼ │
             RETRYING                          failed, retried later
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from kraal.core.ids import TaskId
from kraal.core.lease import MUST_NOT_WRITE
from kraal.core.logging import bind_subject
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.session.session import SparkUnavailable
from kraal.engine.sink.group_member import Release
from kraal.engine.sink.member_record import Record
from kraal.plugins.api import PartitionsLost, RetriableError

log = logging.getLogger(__name__)

LEASE_TIMEOUT_S = 10.0
"""Maximum time for which `check_owned` waits for the lease."""
_LEASE_CHECK_INTERVAL_S = 0.1
_STOP_TIMEOUT_S = 5.0
"""Maximum time for which `stop` waits for a poll to return."""
_REDELIVERY = "The partitions are assigned to other tasks, and the records will be delivered again."
_ADVICE = "Reduce max.records.per.batch or increase consumer.override.max.poll.interval.ms."


@dataclass(frozen=True, slots=True)
class Timing:
    """Timeouts and intervals in seconds."""

    poll_limit_s: float
    """`max.poll.interval.ms`"""
    hold_s: float
    """Maximum delay of a rebalance, counted from the latest poll before the rebalance."""
    first_poll_s: float
    """Time after which the member of a running job is first polled."""
    interval_s: float
    """Interval between polls while a job is running."""

    @staticmethod
    def of(config: Mapping[str, str | int | bool]) -> Timing:
        """Derive the timing from the settings of a member.

        The broker's timeout begins with the rebalance, which the client detects with its next heartbeat, up to a second
        late.
        """
        limit_s = int(config.get("max.poll.interval.ms", 300_000)) / 1000
        heartbeat_s = int(config.get("heartbeat.interval.ms", 3000)) / 1000
        return Timing(
            poll_limit_s=limit_s,
            hold_s=max(limit_s / 4, 0.95 * limit_s - heartbeat_s - 1),
            first_poll_s=min(1.0, limit_s / 10),
            interval_s=min(1.0, limit_s / 10),
        )


class PolledMember(Protocol):
    """The part of a group member that `BatchOwnership` uses."""

    release: Release
    """Called before partitions are released; may block."""
    changed: bool
    """Whether records must be read again from the committed offsets."""
    polled_s: float
    """The time at which the latest poll returned, in monotonic seconds."""

    def pause(self) -> None:
        """Stop reading records."""

    def poll(self, limit: int) -> Sequence[Record]:
        """Poll the consumer, which also handles rebalances; return up to `limit` records."""


class _Stage(Enum):
    NONE = auto()
    RUNNING = auto()
    RETRYING = auto()
    WRITTEN = auto()


class BatchOwnership:
    """Keeps one member in its group during batches. Thread-safe; only `commit`, `stop` and `check_owned` may block."""

    _member: PolledMember

    def __init__(
        self,
        task: TaskId,
        timing: Timing,
        call_later: Callable[[float, Callable[[], None]], None],
        has_lease: Callable[[], bool] = lambda: True,
        cancel: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the object without a member (`set_member`).

        Args:
            task: the task, for log lines.
            timing: when to poll, and how long to delay a rebalance.
            call_later: calls a function after a number of seconds.
            has_lease: returns whether the worker may write for the task.
            cancel: called when a batch is lost while its job is running; must not block.
        """
        self._task = task
        self._timing = timing
        self._call_later = call_later
        self._has_lease = has_lease
        self._cancel = cancel
        self._changed = threading.Condition()
        self._stage = _Stage.NONE
        self._is_lost = self._is_stopped = self._is_scheduled = False
        self._start_s = 0.0
        self._record_count = 0
        self._thread: threading.Thread | None = None
        self._is_committing = False
        """Whether a commit runs on another thread, so that the polling thread must not start."""
        self._pending_commit: Callable[[], None] | None = None
        """The commit that the polling thread must perform."""
        self._error: Exception | None = None
        """The exception that the commit raised on the polling thread."""

    def set_member(self, member: PolledMember) -> None:
        """Set the member; its rebalances are delayed from now on. Called once, before the first job."""
        self._member = member
        member.release = self._release

    @property
    def is_idle(self) -> bool:
        """Whether no job is running and no thread of this object polls the member, so that the run may poll it."""
        with self._changed:
            return self._stage is _Stage.NONE and self._thread is None

    @property
    def is_lost(self) -> bool:
        """Whether the output of the current batch must not be published or committed."""
        with self._changed:
            return self._is_lost

    def guard(self, launch: JobLauncher) -> JobLauncher:
        """Return a launcher that keeps the member in its group while the job is running, also when it is retried."""
        has_begun = False

        def start(done: Callable[[JobResult], None]) -> None:
            nonlocal has_begun
            if self._begin(is_retry=has_begun):
                has_begun = True
                launch(lambda outcome: done(self._record_end(outcome)))
            else:
                done(None)  # the batch was lost while it waited for a retry

        return start

    def set_batch_size(self, records: int) -> None:
        """Record the number of records that the job writes, for log messages."""
        self._record_count = records

    def check_owned(self) -> None:
        """Raise PartitionsLost if the batch is lost, the task was cancelled, or the worker's lease has expired.

        An error also marks the batch as lost. Blocks for up to `LEASE_TIMEOUT_S` without a lease, because a late
        response of the group may renew the lease.
        """
        deadline_s = time.monotonic() + LEASE_TIMEOUT_S
        with self._changed:
            while not (is_leased := self._has_lease()) and not (self._is_lost or self._is_stopped):
                if time.monotonic() >= deadline_s:
                    break
                self._changed.wait(_LEASE_CHECK_INTERVAL_S)
            if self._is_lost or self._is_stopped or not is_leased:
                self._is_lost = True
                reason = (
                    "the task was cancelled" if self._is_stopped else "its partitions belong to another task"
                )
                if not is_leased:
                    reason = MUST_NOT_WRITE
                raise PartitionsLost(f"{self._task}: discarding the batch: {reason}")

    def commit(self, function: Callable[[], None]) -> None:
        """Call `function`, which commits the reported batch, unless the batch is lost. Raises errors of `function`."""
        with self._changed:
            if self._thread is not None and not self._is_lost:
                self._pending_commit = function
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._pending_commit is None)
                error, self._error = self._error, None
                if error is not None:
                    raise error
                return
            is_lost, self._is_committing = self._is_lost, True
        try:
            if not is_lost:
                function()
            self._set_stage(_Stage.NONE)
        finally:
            self._is_committing = False

    def stop(self, wait_s: float = _STOP_TIMEOUT_S) -> None:
        """Stop polling, and let a delayed rebalance continue. Waits up to `wait_s` for the polling thread to end."""
        with self._changed:
            self._is_stopped = True
            self._stage = _Stage.NONE
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._thread is None, wait_s)

    # --- jobs -----------------------------------------------------------------------------------------------

    def _begin(self, *, is_retry: bool) -> bool:
        with self._changed:
            if is_retry and self._is_lost:
                self._stage = _Stage.NONE
                self._changed.notify_all()
                return False
            if not is_retry:
                self._is_lost, self._record_count = False, 0
            self._start_s = time.monotonic()
            if not self._is_stopped:
                self._stage = _Stage.RUNNING
                self._schedule(self._timing.first_poll_s)
            return True

    def _record_end(self, outcome: JobResult) -> JobResult:
        if isinstance(outcome, BatchDone):
            self._set_stage(_Stage.WRITTEN)
        else:
            self._set_stage(
                _Stage.RETRYING if isinstance(outcome, RetriableError | SparkUnavailable) else _Stage.NONE
            )
        return outcome

    def _set_stage(self, stage: _Stage) -> None:
        with self._changed:
            if not self._is_stopped:
                self._stage = stage
            self._changed.notify_all()

    def _schedule(self, delay_s: float) -> None:
        """Schedule the start of the polling thread, unless it is scheduled. The caller holds the lock."""
        if not self._is_scheduled and self._thread is None:
            self._is_scheduled = True
            self._call_later(delay_s, self._start_if_due)

    def _start_if_due(self) -> None:
        with self._changed:
            self._is_scheduled = False
            if self._stage is _Stage.NONE:
                return
            remaining_s = self._start_s + self._timing.first_poll_s - time.monotonic()
            if remaining_s > 0 or self._is_committing:
                self._schedule(max(remaining_s, self._timing.interval_s))
                return
            run = bind_subject(self._run)
            self._thread = threading.Thread(target=run, name=f"keep-alive-{self._task}", daemon=True)
            self._thread.start()

    # --- the polling thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        """Poll the member until no batch is in progress."""
        can_poll, has_warned = True, False
        while True:
            try:
                if can_poll:
                    self._member.pause()
                    if self._member.poll(1):
                        self._member.changed = True  # this thread drops the record
            except Exception as error:  # noqa: BLE001 - the run's next poll raises it again
                log.warning("%s: Failed to poll the group member: %s", self._task, error)
                can_poll = False
            with self._changed:
                self._wait({_Stage.NONE}, self._timing.interval_s)
                if self._stage is _Stage.NONE:
                    self._thread = None
                    self._changed.notify_all()
                    return
                elapsed_s = time.monotonic() - self._start_s
                is_late = self._stage is _Stage.RUNNING and elapsed_s > self._timing.poll_limit_s
            if is_late and not has_warned and not self._is_lost:
                has_warned = True
                log.warning(
                    "Sink task %s: %s has been running for %.0f s, longer than "
                    "max.poll.interval.ms (%d). The task keeps its partitions until another member joins or "
                    "leaves the group: a rebalance does not wait longer than max.poll.interval.ms. %s",
                    self._task, self._job_name, elapsed_s, self._timing.poll_limit_s * 1000, _ADVICE,
                )  # fmt: skip

    @property
    def _job_name(self) -> str:
        return f"the write of {self._record_count} records" if self._record_count else "a job"

    def _wait(self, stages: Collection[_Stage], timeout_s: float) -> None:
        """Wait for one of the stages, and perform a requested commit, without the lock that the caller holds."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._changed.wait_for(
                lambda: self._pending_commit is not None or self._stage in stages,
                max(0.0, deadline_s - time.monotonic()),
            )
            function = self._pending_commit
            if function is None:
                return
            self._changed.release()
            try:
                function()
            except Exception as error:  # noqa: BLE001 - raised to the thread that requested the commit
                self._error = error
            finally:
                self._changed.acquire()
            if self._error is None:
                self._stage = _Stage.NONE
            self._pending_commit = None
            self._changed.notify_all()

    def _release(self, *, lost: bool) -> None:
        """Delay the release of partitions until the batch is committed; the batch is lost if the group cannot wait."""
        with self._changed:
            if not lost and self._stage in {_Stage.RUNNING, _Stage.WRITTEN} and not self._is_lost:
                log.info("Sink task %s: Delaying a rebalance until the current batch ends", self._task)
                deadline_s = self._member.polled_s + self._timing.hold_s
                self._wait({_Stage.NONE, _Stage.RETRYING}, deadline_s - time.monotonic())
            if self._stage is _Stage.NONE or self._is_lost:
                return
            self._is_lost = True
            stage, job, elapsed_s = self._stage, self._job_name, time.monotonic() - self._start_s
        if stage is _Stage.RETRYING:
            log.info(
                "Sink task %s: Stopped retrying a batch because of a rebalance; the batch will be read again",
                self._task,
            )
            return
        if stage is _Stage.RUNNING:
            self._cancel()
        if lost and elapsed_s < self._timing.poll_limit_s:
            log.warning(
                "Sink task %s: The group removed the member because no heartbeat arrived within session.timeout.ms, "
                "for example because brokers were unavailable. At that time, %s had taken %.1f s. %s",
                self._task, job, elapsed_s, _REDELIVERY,
            )  # fmt: skip
            return
        reason = (
            "the group has removed the member"
            if lost
            else "a rebalance of the group cannot wait longer for it"
        )
        log.warning(
            "Sink task %s: %s has taken %.1f s and %s (max.poll.interval.ms is %d). %s %s",
            self._task, job, elapsed_s, reason, self._timing.poll_limit_s * 1000, _REDELIVERY, _ADVICE,
        )  # fmt: skip
