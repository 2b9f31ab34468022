"""Read-only checks of the clock: the kernel's state, and timestamps of records and responses.

Brokers do not report their time. However, the records in an internal topic have the timestamps of the workers that
wrote them. A timestamp in the future means that the clock of that worker or of this machine is wrong.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from datetime import UTC
from email.utils import parsedate_to_datetime

from kraal.doctor.finding import Finding, Level, passed

_TIMEX_BYTES = 1024
"""Buffer size, larger than `struct timex`; a zeroed buffer requests only the state. Source: adjtimex(2)."""
_TIME_ERROR = 5
TOLERANCE_S = 5.0
_FIX = "Synchronize the clocks of all machines: chrony, or systemd-timesyncd."


def check_clock() -> Iterator[Finding]:
    """Check whether the kernel considers its clock synchronized."""
    state = kernel_state()
    if state is None:
        yield Finding(
            "clock.synchronized",
            Level.SKIPPED,
            "The kernel does not report whether its clock is synchronized",
        )
    else:
        yield check_synchronization(state)


def kernel_state() -> int | None:
    """Return the state of the kernel's clock from adjtimex(2); None if unavailable."""
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):
        return None
    state = int(adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    return None if state < 0 else state


def check_synchronization(state: int) -> Finding:
    """Check the state of the kernel's clock."""
    if state != _TIME_ERROR:
        return passed("clock.synchronized", "The kernel's clock is synchronized")
    what = "The kernel does not consider its clock synchronized"
    return Finding("clock.synchronized", Level.HINT, what, _FIX)


def check_record_time(topic: str, latest_s: float, now_s: float) -> Finding:
    """Check that the timestamp of a topic's latest record, in seconds since the epoch, is not in the future."""
    ahead_s = latest_s - now_s
    if ahead_s <= TOLERANCE_S:
        return passed("clock.records", f"The topic {topic} has no record with a timestamp in the future")
    what = (
        f"A record of the topic {topic} is {ahead_s:,.0f} s in the future: this machine's clock is slow, or the clock "
        "of the worker that wrote the record is fast"
    )
    return Finding("clock.records", Level.WARNING, what, _FIX)


def check_worker_time(url: str, date: str | None, sent_s: float, received_s: float) -> Finding:
    """Check the `Date` header of a worker's response.

    Args:
        url: URL of the worker, shown in the finding.
        date: value of the header, which has a resolution of one second.
        sent_s: time at which the request was sent, in seconds since the epoch.
        received_s: time at which the response was received.
    """
    try:
        worker_time = parsedate_to_datetime(date or "")
    except ValueError:
        return Finding("clock.worker", Level.SKIPPED, f"{url} does not report its time")
    worker_s = (worker_time if worker_time.tzinfo else worker_time.replace(tzinfo=UTC)).timestamp()
    offset_s = worker_s - received_s if worker_s > received_s else min(worker_s + 1 - sent_s, 0.0)
    if abs(offset_s) <= TOLERANCE_S:
        return passed(
            "clock.worker", f"The clock of {url} differs from this machine's by less than {TOLERANCE_S:g} s"
        )
    direction = "ahead of" if offset_s > 0 else "behind"
    what = f"The clock of {url} is {abs(offset_s):,.0f} s {direction} this machine's"
    return Finding("clock.worker", Level.WARNING, what, _FIX)


def now_s() -> float:
    """Return this machine's time in seconds since the epoch."""
    return time.time()
