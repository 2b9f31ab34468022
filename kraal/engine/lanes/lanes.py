"""The worker's lane: one long-running Spark task that sends the small batches of all source tasks.

A job takes about ten milliseconds of CPU time on two cores, even for few records. The Spark task of a lane does not
end: small batches whose records are already bytes are passed to the JVM together, and the task sends them with separate
producers. A lane has two threads: one pushes batches to the task, the other receives results.

Batches go through the lane while its Spark task is running. Otherwise, and whenever the lane does not accept a batch, a
producer in the worker (`worker_producers`) or a job (`kraal.engine.kafka_io.coalescing`) writes the batch.

Cancelling a batch closes its producer, so that no record of the batch is sent later. If other tasks have batches in
this producer, jobs repeat them.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from kraal.engine.failure_trace import is_bridge_failure, root_cause
from kraal.engine.lanes.bridge import ENDED, READY, LaneBridge, LaneResult
from kraal.engine.lanes.rows import write_stream
from kraal.engine.lanes.sender import Configs, SmallBatchSender, list_configs
from kraal.metrics.stalls.down_parts import DownPart

if TYPE_CHECKING:
    from kraal.engine.kafka_io.coalescing import Coalescer, PendingBatch
    from kraal.engine.session.session import Session, Spark
    from kraal.engine.thread_pool import Pool

log = logging.getLogger(__name__)

LINGER_S: Final = 0.01
"""Minimum time between two pushes of a busy lane, so that batches are pushed together."""
GATHER_DELAY_S: Final = 0.003
"""Minimum time for which a busy lane waits for more batches after the first one."""
BUSY_PERIOD_S: Final = 0.1
"""A lane is busy for this time after a push."""
RESTART_DELAY_S: Final = 30.0
"""Delay before a lane that has ended is restarted in the same Spark session."""


@dataclass(slots=True, eq=False)
class _Lane:
    """A lane in one Spark session."""

    spark: Spark
    bridge: LaneBridge | None = None
    """None while the lane is starting."""
    is_ready: bool = False
    names: dict[Configs, str] = field(default_factory=dict)
    """Names of the producers, by their configs. A name is never reused."""
    in_flight: dict[int, PendingBatch] = field(default_factory=dict)
    """Batches without a result, by number."""
    last_push_s: float = -math.inf
    """Time of the latest push, in monotonic seconds."""


class Lanes(SmallBatchSender):
    """Sends small batches through a Spark task; configs of its producers are named as in Kafka."""

    def __init__(self, session: Session, coalescer: Coalescer, canceller: Pool, *, is_local: bool) -> None:
        """Create the object without a lane; `is_local` is whether Spark's tasks run in the driver's JVM."""
        super().__init__(coalescer.put, is_local=is_local)
        self._session = session
        self._canceller = canceller
        self._lane: _Lane | None = None
        self._waiting_batches: deque[PendingBatch] = deque()
        self._numbers = itertools.count(1)
        self._last_end: tuple[Spark, float] | None = None
        """The Spark session of the last lane, and the time at which the lane ended, in monotonic seconds."""
        self._down: DownPart | None = None
        """The report that there is no lane although tasks require one; None if there is a lane."""

    @override
    def accepts(self, row_count: int, size: int) -> bool:
        """Return whether the lane accepts a batch of this size now; start a lane if none is running."""
        spark = self._session.current
        with self._lock:
            if spark is None or not super().accepts(row_count, size):
                return False
            lane = self._lane
            if lane is not None and lane.spark is spark:
                return lane.is_ready
            if (
                self._last_end is not None
                and self._last_end[0] is spark
                and time.monotonic() < self._last_end[1] + RESTART_DELAY_S
            ):
                return False
            self._lane = lane = _Lane(spark)
            self._down = self._down or DownPart("lane", time.monotonic(), "its Spark task has not started")
        for name, function in (("kraal-lane-push", self._push), ("kraal-lane-results", self._receive)):
            threading.Thread(target=function, args=(lane,), name=name, daemon=True).start()
        return False

    @override
    def put(self, batch: PendingBatch, run: object) -> None:
        """Send a batch through the lane; if no lane is ready, a job writes the batch."""
        with self._lock:
            lane = self._lane
            is_open = lane is not None and lane.is_ready
            if is_open:
                self._accept(batch, run)
                self._waiting_batches.append(batch)
                if len(self._waiting_batches) == 1:
                    self._lock.notify_all()
        if not is_open:
            self._repeat(batch)

    @override
    def cancel(self, batch: PendingBatch) -> bool:
        """Cancel a batch, and discard its producer if the batch was pushed.

        Return False if the lane does not have the batch.
        """
        with self._lock:
            lane = self._lane
            if batch in self._waiting_batches:
                batch.is_cancelled = True
                return True
            if lane is None or batch not in lane.in_flight.values():
                return False
            batch.is_cancelled = True
            name = lane.names.get(list_configs(batch))
        if name is not None:
            self._discard(lane, name)
        return True

    @override
    def _remove(self, unused_configs: Iterable[Configs]) -> Sequence[Callable[[], object]]:
        lane = self._lane
        names = (
            []
            if lane is None
            else [lane.names.pop(configs) for configs in unused_configs if configs in lane.names]
        )
        return [partial(self._canceller.submit, partial(_remove_producer, lane, name)) for name in names]

    def down(self) -> DownPart | None:
        """Return why there is no lane in the current Spark session; None if there is one, or no task requires one."""
        with self._lock:
            spark = (
                self._lane.spark if self._lane is not None else self._last_end[0] if self._last_end else None
            )
            return None if spark is None or spark is not self._session.current else self._down

    def close(self) -> None:
        """Stop the thread that pushes batches; the thread that receives results ends with Spark."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()

    # --- the thread that pushes batches ---------------------------------------------------------------------

    def _push(self, lane: _Lane) -> None:
        try:
            while (batches := self._take_batches(lane)) is not None:
                for (name, configs), numbered_batches in batches.items():
                    self._push_batches(lane, name, configs, numbered_batches)
        except Exception:  # without this thread, batches would wait forever
            log.exception("Ending the lane for small batches because batches cannot be pushed to it")
            if lane.bridge is not None:
                self._stop_sending(lane, lane.bridge.end)

    def _take_batches(
        self, lane: _Lane
    ) -> Mapping[tuple[str, Configs], Sequence[tuple[int, PendingBatch]]] | None:
        """Wait for batches, and for further ones if the lane is busy; return None when the lane has ended.

        The batches are returned with their numbers, by the names and configs of their producers. Batches move from
        `_waiting_batches` to `lane.in_flight` atomically, so that `cancel` and `_end_lane` find each of them.
        """
        if not self._wait(lane):
            return None
        elapsed_s = time.monotonic() - lane.last_push_s
        if elapsed_s < BUSY_PERIOD_S:
            time.sleep(max(GATHER_DELAY_S, LINGER_S - elapsed_s))
        lane.last_push_s = time.monotonic()
        by_producer: dict[tuple[str, Configs], list[tuple[int, PendingBatch]]] = {}
        cancelled_batches: list[PendingBatch] = []
        with self._lock:
            if self._lane is not lane:
                return None
            while self._waiting_batches:
                batch = self._waiting_batches[0]
                if batch.is_cancelled:
                    cancelled_batches.append(batch)
                else:
                    configs, number = list_configs(batch), next(self._numbers)
                    name = lane.names.setdefault(configs, f"producer-{number}")
                    lane.in_flight[number] = batch
                    by_producer.setdefault((name, configs), []).append((number, batch))
                self._waiting_batches.popleft()
            self._waiting_bytes = 0
        for batch in cancelled_batches:
            batch.done(None)
        return by_producer

    def _wait(self, lane: _Lane) -> bool:
        """Wait for batches; return False when the lane has ended."""
        with self._lock:
            while (
                (not self._waiting_batches or not lane.is_ready) and self._lane is lane and not self._closed
            ):
                self._lock.wait()
            return self._lane is lane and not self._closed

    def _push_batches(
        self, lane: _Lane, name: str, configs: Configs, numbered_batches: Sequence[tuple[int, PendingBatch]]
    ) -> None:
        bridge = lane.bridge
        assert bridge is not None  # noqa: S101 - batches are pushed only when the lane is ready
        try:
            bridge.push(name, dict(configs), write_stream(numbered_batches))
        except Exception as error:  # noqa: BLE001 - jobs repeat the batches, and fail with the cause
            for number, _ in numbered_batches:
                self._handle_result(lane, LaneResult(number, str(error)), error)
        if any(
            batch.is_cancelled for _, batch in numbered_batches
        ):  # a batch may have been cancelled before the push
            self._discard(lane, name)

    def _discard(self, lane: _Lane, name: str) -> None:
        """Discard a producer. Returns at once."""
        bridge = lane.bridge
        if bridge is not None:
            self._canceller.submit(lambda: self._stop_sending(lane, lambda: bridge.discard(name)))

    def _stop_sending(self, lane: _Lane, stop: Callable[[], None]) -> None:
        """Call `stop`, which drops records in the JVM; kill the JVM if this fails, because it must not send them."""
        try:
            stop()
        except Exception as error:  # noqa: BLE001 - after any error, the JVM may still send the records
            if self._session.current is lane.spark:
                self._session.kill(f"records of a lane cannot be discarded: {error}")

    # --- the thread that receives results -------------------------------------------------------------------

    def _receive(self, lane: _Lane) -> None:
        error: BaseException | None = None
        try:
            lane.bridge = LaneBridge(lane.spark)
            for result in lane.bridge.results():
                if result.number == READY:
                    self._set_ready(lane)
                elif result.number != ENDED:
                    self._handle_result(lane, result)
        except Exception as raised:  # noqa: BLE001 - any error ends the lane
            error = raised
        self._end_lane(lane, error)

    def _set_ready(self, lane: _Lane) -> None:
        with self._lock:
            lane.is_ready, self._down = True, None
            self._lock.notify_all()
        log.info("Started the lane for small batches")

    def _handle_result(self, lane: _Lane, result: LaneResult, error: BaseException | None = None) -> None:
        """Complete a batch, or repeat it with a Spark job."""
        with self._lock:
            batch = lane.in_flight.pop(result.number, None)
        if batch is None:
            return
        if error is not None and is_bridge_failure(error) and not batch.is_cancelled:
            batch.done(error)
        else:
            self._complete(batch, result.error, result.acknowledged)

    def _end_lane(self, lane: _Lane, error: BaseException | None) -> None:
        """Remove a lane that can no longer send records; jobs write its remaining batches."""
        if error is not None and lane.bridge is not None and not is_bridge_failure(error):
            self._stop_sending(lane, lane.bridge.end)
        reason = "its Spark task has ended" if error is None else root_cause(error)
        with self._lock:
            if self._lane is lane:
                self._lane, self._last_end = None, (lane.spark, time.monotonic())
                since_s = self._last_end[1] if self._down is None else self._down.since_s
                self._down = DownPart("lane", since_s, reason)
                waiting_batches = list(self._waiting_batches)
                self._waiting_batches.clear()
                self._waiting_bytes = 0
            else:
                waiting_batches = []
            self._lock.notify_all()
            numbers = list(lane.in_flight)
        if error is not None and is_bridge_failure(error):  # the session reports the end of its JVM
            log.debug("The lane for small batches has ended: %s", reason)
        elif not self._closed:
            log.warning("The lane for small batches has ended: %s", reason)
        for number in numbers:
            self._handle_result(lane, LaneResult(number, reason), error)
        for batch in waiting_batches:
            if batch.is_cancelled:
                batch.done(None)
            else:
                self._repeat(batch)


def _remove_producer(lane: _Lane | None, name: str) -> None:
    try:
        if lane is not None and lane.bridge is not None:
            lane.bridge.remove_producer(name)
    except Exception as error:  # noqa: BLE001 - the producer is idle, and ends with the JVM
        log.warning("Failed to close an unused producer of the lane for small batches: %s", root_cause(error))
