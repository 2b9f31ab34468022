"""Membership in a group that Kafka coordinates: drives the `Coordinator` on a separate event loop and thread.

After each change of the state, the driver takes the step that the state requires: join, leave, report that the
coordinator is unavailable, or disconnect from an unresponsive broker.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from kafka import errors
from kafka.net.compat import KafkaNetClient
from kafka.net.wakeup_notifier import WakeupNotifier

from kraal.core import lease_clock
from kraal.core.errors import StoreError
from kraal.kafka.group_coordinator import Coordinator
from kraal.kafka.sockets import DIRECT
from kraal.stores.group_api import GroupHooks, GroupOptions

log = logging.getLogger(__name__)

BUSY_POLL_INTERVAL_S = 0.1
"""Interval at which the driver checks the state while an operation is in progress."""
IDLE_POLL_INTERVAL_S = 1.0
"""Interval at which the driver checks the state while idle."""
RETRY_DELAYS_S = (0.1, 0.5, 2.0, 5.0)
"""Delays after failed joins that kafka-python does not retry."""
LOG_INTERVAL_S = 60.0
"""Interval at which a repeated failure is logged."""
LEAVE_TIMEOUT_S = 3.0
"""Maximum time to wait for the response to a LeaveGroup request."""
_CLIENT_DEFAULTS = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 1000, "proxy_url": DIRECT}
"""Connect's defaults where they differ from kafka-python's, and the socket class in `kraal.kafka.sockets`."""


class KafkaGroup:
    """A worker's membership; implements `kraal.stores.group_api.Group`."""

    def __init__(self, options: GroupOptions, client: Mapping[str, object]) -> None:
        """Create the client, which connects on `start`.

        Args:
            options: the member's options.
            client: kafka-python's client settings, such as `bootstrap_servers` and `security_protocol`.

        Raises KafkaConfigurationError, ValueError or another exception for settings that kafka-python rejects.
        """
        self._options = options
        logging.getLogger("kafka.coordinator").addFilter(_is_kept)
        # An assignment for a large group takes longer than kafka-python's threshold for slow tasks.
        self._client = KafkaNetClient(**{**_CLIENT_DEFAULTS, **client, "slow_task_threshold_secs": 0})
        self._driver: _Driver | None = None

    def start(self, hooks: GroupHooks) -> None:
        """Join the group in the background."""
        self._driver = _Driver(self._options, self._client, hooks)
        self._driver.start()

    def rejoin(self, reason: str) -> None:
        """Trigger a rebalance."""
        if self._driver is not None:
            log.debug("Request joining group due to: %s", reason)
            self._driver.coordinator.request_rejoin()

    def leave(self, reason: str) -> None:
        """Leave the group until `resume`."""
        if self._driver is not None:
            self._driver.set_leaving(reason)

    def resume(self) -> None:
        """Join the group again."""
        if self._driver is not None:
            self._driver.set_leaving(None)
            self._driver.coordinator.request_rejoin()

    def close(self, timeout_s: float) -> None:
        """Leave the group permanently, and stop the thread."""
        if self._driver is not None:
            self._driver.close(timeout_s)
        self._client.close()

    def heartbeat_age_s(self) -> float:
        """Return the seconds since the broker last confirmed the membership; infinite if the worker is no member."""
        driver = self._driver
        return (
            math.inf if driver is None else lease_clock.now_s() - driver.coordinator.lease_heartbeat.lease_s
        )

    def members(self) -> Future[Sequence[str]]:
        """Request the URLs of all members; none during a rebalance. The future may raise StoreError."""
        result: Future[Sequence[str]] = Future()

        def fail(error: object) -> None:
            result.set_exception(
                StoreError(f"Cannot list the members of group {self._options.group_id}: {error!r}")
            )

        if self._driver is None:
            fail("this worker has not joined")
        else:
            request = self._client._manager.call_soon(self._driver.coordinator.member_urls)  # noqa: SLF001 - as below
            request.add_callback(result.set_result)
            request.add_errback(fail)
        return result

    @property
    def member_id(self) -> str:
        """The member's id in the group; empty if it has none."""
        return "" if self._driver is None else self._driver.coordinator.member_id


_FAILED_JOIN_PREFIXES = ("Unexpected error from SyncGroup", "Unexpected error in join group response")


def _is_kept(record: logging.LogRecord) -> bool:
    """Return False for failed joins that the driver logs less often and with the cause.

    kafka-python retries a join after a retriable error, so such errors never reach the driver.
    """
    is_driver_error = not any(isinstance(argument, errors.RetriableError) for argument in record.args or ())
    return not (is_driver_error and str(record.msg).startswith(_FAILED_JOIN_PREFIXES))


class JoinFailures:
    """Decides which failed joins to log: a new failure immediately, a repeated one every `LOG_INTERVAL_S`."""

    def __init__(self) -> None:
        self._last_error = ""
        self._next_log_s = 0.0

    def should_log(self, error: BaseException, now_s: float) -> bool:
        """Return whether to log a failure now; `now_s` is a monotonic time."""
        text = repr(error)
        if text == self._last_error and now_s < self._next_log_s:
            return False
        self._last_error, self._next_log_s = text, now_s + LOG_INTERVAL_S
        return True

    def reset(self) -> None:
        """Clear the last failure after a successful join."""
        self._last_error = ""


def likely_cause(error: BaseException) -> str:
    """Return the likely cause of an UnknownError and a fix, as the end of a log line; empty for other errors.

    A broker returns this error if the group's record is too large, for example. Source: GroupMetadataManager,
    CoordinatorRuntime (Kafka 4.3.0), and an experiment.
    """
    if not isinstance(error, errors.UnknownError):
        return ""
    return (
        ". See the broker's log for the cause. Most likely the group's record (all members' metadata and assignments) "
        "exceeds max.message.bytes of the topic __consumer_offsets, about 1 MB by default. Raise the limit with "
        "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name __consumer_offsets "
        "--add-config max.message.bytes=4000000, or divide the connectors among several groups"
    )


class _Driver:
    """Drives the coordinator on the client's loop."""

    def __init__(self, options: GroupOptions, client: Any, hooks: GroupHooks) -> None:
        self._options = options
        self._hooks = hooks
        self._net = client._net  # noqa: SLF001 - pinned, see the coordinator's docstring
        self._manager = client._manager  # noqa: SLF001 - as above
        self._wake = WakeupNotifier(self._net)
        self.coordinator = Coordinator(client, options, hooks, self.wake_driver)
        self._bootstrap: Any = None
        self._join: Any = None
        self._join_heartbeat: Any = None
        self._join_heartbeat_at_s = 0.0
        self._retry_at_s = 0.0
        self._failures = 0
        self._join_failures = JoinFailures()
        self._leave_reason: str | None = None
        self._has_reported_lost = False
        self._closing = False
        self._ended = threading.Event()

    # -- thread-safe ---------------------------------------------------------------------------------------

    def start(self) -> None:
        self._net.start()
        self._manager.call_soon(self._drive)

    def wake_driver(self) -> None:
        try:
            self._wake.notify()
        except (RuntimeError, errors.KafkaError) as exc:
            log.debug("Stopped the membership loop: %s", exc)

    def set_leaving(self, reason: str | None) -> None:
        self._leave_reason = reason
        self.wake_driver()

    def close(self, timeout_s: float) -> None:
        self._closing = True
        deadline = time.monotonic() + timeout_s
        self.wake_driver()
        self._ended.wait(timeout_s)
        self._net.stop(timeout_ms=max(0.1, deadline - time.monotonic()) * 1000)

    # -- on the loop ---------------------------------------------------------------------------------------

    async def _drive(self) -> None:
        while not self._closing:
            try:
                await self._run_once()
            except Exception:
                log.exception("Continuing the group membership after an unexpected error")
            is_busy = self._join is not None or self.coordinator.unknown_since_s is not None or self._failures
            await self._wake(BUSY_POLL_INTERVAL_S if is_busy else IDLE_POLL_INTERVAL_S)
        await self.coordinator.leave_group("the worker is shutting down", LEAVE_TIMEOUT_S)
        await self.coordinator.stop_heartbeats()
        self._ended.set()

    async def _run_once(self) -> None:
        coordinator, now_s = self.coordinator, time.monotonic()
        if self._leave_reason is None:
            coordinator.has_left = False
        elif not coordinator.has_left:
            await coordinator.leave_group(self._leave_reason, LEAVE_TIMEOUT_S)
        self._finish_join()
        self._report_lost_coordinator(now_s)
        self._disconnect_unresponsive_broker()
        if not self._is_connected(now_s):
            return
        if self._join is None and coordinator.need_rejoin() and now_s >= self._retry_at_s:
            self._join = self._start_coroutine(coordinator.ensure_active_group_async)
        elif self._join is None and coordinator.is_stable:
            coordinator._maybe_start_heartbeat_loop()  # noqa: SLF001 - an error may have stopped it
        self._heartbeat_during_join(now_s)

    def _start_coroutine(self, coroutine: Any) -> Any:
        """Start a coroutine, and wake the driver when the coroutine has finished."""
        future = self._manager.call_soon(coroutine)
        future.add_both(lambda _: self.wake_driver())
        return future

    def _is_connected(self, now_s: float) -> bool:
        """Return whether the client has connected to the cluster; otherwise connect, also after an error."""
        if self._bootstrap is None and now_s >= self._retry_at_s:
            self._bootstrap = self._start_coroutine(self._manager.bootstrap_async)
        bootstrap = self._bootstrap
        if bootstrap is None or not bootstrap.is_done:
            return False
        if bootstrap.failed():
            self._bootstrap = None
            self._on_failed(bootstrap.exception)
            return False
        return True

    def _heartbeat_during_join(self, now_s: float) -> None:
        if self._join_heartbeat is not None and self._join_heartbeat.is_done:
            self._join_heartbeat = None
        if (
            self.coordinator.join_in_progress
            and self._join_heartbeat is None
            and now_s >= self._join_heartbeat_at_s
        ):
            self._join_heartbeat_at_s = now_s + self._options.heartbeat_interval_s / 3
            self._join_heartbeat = self._start_coroutine(self.coordinator.send_join_heartbeat)

    def _finish_join(self) -> None:
        if self._join is None or not self._join.is_done:
            return
        join, self._join = self._join, None
        if join.failed():
            self._on_failed(join.exception)
        else:
            self._failures = 0
            self._join_failures.reset()

    def _on_failed(self, error: BaseException) -> None:
        pause_s = RETRY_DELAYS_S[min(self._failures, len(RETRY_DELAYS_S) - 1)]
        self._failures += 1
        self._retry_at_s = time.monotonic() + pause_s
        self._manager._auth_failures.clear()  # noqa: SLF001 - a failed login would never be retried otherwise
        level = logging.ERROR if self._join_failures.should_log(error, time.monotonic()) else logging.DEBUG
        cause = likely_cause(error)
        log.log(level, "Failed to join the group; retrying in %.1f s: %r%s", pause_s, error, cause)
        self.coordinator.request_rejoin()
        if not (isinstance(error, errors.KafkaError) and error.retriable):
            self._hooks.on_lost(f"the group rejected this worker: {error}")

    def _report_lost_coordinator(self, now_s: float) -> None:
        """Call `on_lost` if the coordinator has been unknown for longer than `heartbeat.interval.ms`."""
        coordinator = self.coordinator
        since_s = coordinator.unknown_since_s
        if since_s is None:
            self._has_reported_lost = False
        elif (
            not self._has_reported_lost
            and now_s - since_s > self._options.heartbeat_interval_s
            and not coordinator.has_left
        ):
            self._has_reported_lost = True
            # Call the hooks before the next join, because work must stop.
            coordinator.rejoining = False
            coordinator.request_rejoin()
            self._hooks.on_lost(f"the group's coordinator has been unknown for {now_s - since_s:.1f} s")

    def _disconnect_unresponsive_broker(self) -> None:
        """Disconnect from a coordinator that has not responded within the session timeout."""
        overdue_s = self.coordinator.overdue_s
        if overdue_s > self._options.session_timeout_s:
            self.coordinator.disconnect(f"no response for {overdue_s:.1f} s")
