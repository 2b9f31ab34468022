"""Reports refusals by brokers while a batch is in progress, because Kafka's producer retries silently.

A batch waits until the brokers accept it, as in Java. A batch that is too large for its topic would wait forever: if
the limit of the topic is unknown or outdated, the run repeats the batch with a smaller `batch.size`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.context import ExecutorContext
from kraal.engine.executor import JobResult
from kraal.engine.kafka_io.message_limits import MessageLimits
from kraal.engine.kafka_io.refusals import Refusal
from kraal.plugins.api import RetriableError

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 5.0
"""Interval between checks. A batch that is in progress at two consecutive checks is examined."""
REPORT_INTERVAL_S: Final = 60.0
MIN_SPLIT_REFUSALS: Final = 20
"""Minimum number of new refusals between two checks that shows that the producer splits batches without effect."""


class RefusalWatch:
    """Watches for refusals during the jobs of one run, which has one job at a time. Thread-safe."""

    def __init__(
        self,
        spec: TaskSpec,
        context: ExecutorContext,
        limits: MessageLimits,
        client_id: str,
        interrupt: Callable[[], None],
    ) -> None:
        """Create a watch; `client_id` identifies the task's producer, and `interrupt` cancels the running job."""
        self._spec = spec
        self._context = context
        self._limits = limits
        self._client_id = client_id
        self._interrupt = interrupt
        self._job_number = 0
        """The number of the running job, or 0."""
        self._job_count = 0
        self._checked_job_number = 0
        """The number of the job that was running at the latest check, or 0."""
        self._is_scheduled = False
        """Whether a check is scheduled; there is one check per interval for all jobs."""
        self._interrupt_reason: str | None = None
        """Why the running job was interrupted."""
        self._counts: dict[str, int] = {}
        """The number of times that each refusal had occurred at the latest check."""
        self._last_warnings_s: dict[str, float] = {}

    def begin(self) -> None:
        """Watch the job that is about to start."""
        self._job_count += 1
        self._job_number, self._interrupt_reason, self._counts = self._job_count, None, {}
        if not self._is_scheduled:
            self._check_later()

    def end(self, outcome: JobResult) -> JobResult:
        """Stop watching the job; return its result, or a RetriableError if it was interrupted before it succeeded."""
        self._job_number = 0
        if self._interrupt_reason is None or isinstance(outcome, BatchDone):
            return outcome
        return RetriableError(self._interrupt_reason)

    def _check_later(self) -> None:
        self._is_scheduled = True
        self._context.call_later(CHECK_INTERVAL_S, self._check)

    def _check(self) -> None:
        self._is_scheduled = False
        job, previous_job, self._checked_job_number = (
            self._job_number,
            self._checked_job_number,
            self._job_number,
        )
        if job:
            self._check_later()
            if job == previous_job:
                self._context.producers.report_refusals(partial(self._report, job))

    def _report(self, job: int, refusals: Sequence[Refusal]) -> None:
        """Report the refusals of this run's topics, and interrupt the running job if batches are too large."""
        topics = self._limits.topics
        for refusal in refusals:
            if job != self._job_number or (refusal.topic not in topics and refusal.client != self._client_id):
                continue
            text = str(refusal)
            new_count = refusal.count - self._counts.get(text, refusal.count)
            self._counts[text] = refusal.count
            if new_count and not refusal.is_too_large:
                self._spec.working(busy=True, failure=text)  # the reported cause if the task stalls
                self._warn(text)
            elif new_count >= MIN_SPLIT_REFUSALS and self._interrupt_reason is None:
                limit = self._limits.lower_limit(refusal.topic)
                self._interrupt_reason = f"{text}; trying batches of {limit} bytes"
                self._interrupt()

    def _warn(self, text: str) -> None:
        now_s = time.monotonic()
        if now_s >= self._last_warnings_s.get(text, -REPORT_INTERVAL_S) + REPORT_INTERVAL_S:
            self._last_warnings_s[text] = now_s
            log.warning("%s: %s. The producer is retrying", self._spec.task, text)
