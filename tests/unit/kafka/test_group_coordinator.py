"""Tests for the heartbeats of a group member, and that the age of its lease includes suspensions of the machine."""

from __future__ import annotations

import math
import time

import pytest

from kraal.core import lease_clock
from kraal.kafka.group_coordinator import LeaseHeartbeat

SUSPENSION_S = 60.0


def create_heartbeat() -> LeaseHeartbeat:
    return LeaseHeartbeat(
        group_id="g",
        interval_s=3.0,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=3_000,
        max_poll_interval_ms=60_000,
        retry_backoff_ms=100,
    )


def age_s(heartbeat: LeaseHeartbeat) -> float:
    return lease_clock.now_s() - heartbeat.lease_s


def test_heartbeats_are_due_every_half_second() -> None:
    """A busy process can miss several heartbeats within the shortest session (6 s)."""
    heartbeat = create_heartbeat()
    heartbeat.sent_heartbeat()
    assert 0.0 < heartbeat.time_to_next_heartbeat() <= 0.5
    heartbeat.fail_heartbeat()
    assert heartbeat.time_to_next_heartbeat() <= 0.1


def test_heartbeat_without_response_grants_no_lease() -> None:
    heartbeat = create_heartbeat()
    heartbeat.sent_heartbeat()
    assert age_s(heartbeat) == math.inf


def test_suspension_after_response_ages_the_lease() -> None:
    heartbeat = create_heartbeat()
    heartbeat.sent_heartbeat()
    heartbeat.received_heartbeat()
    assert age_s(heartbeat) < SUSPENSION_S / 2
    lease_clock.advance(SUSPENSION_S)
    assert age_s(heartbeat) >= SUSPENSION_S
    heartbeat.sent_heartbeat()
    heartbeat.received_heartbeat()
    assert age_s(heartbeat) < SUSPENSION_S / 2, "the next response renews the lease"


def test_suspension_before_response_ages_the_lease() -> None:
    heartbeat = create_heartbeat()
    heartbeat.sent_heartbeat()
    lease_clock.advance(SUSPENSION_S)
    heartbeat.received_heartbeat()
    assert age_s(heartbeat) >= SUSPENSION_S


def test_lease_clock_includes_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    suspended_s = 0.0
    original_clock_gettime = time.clock_gettime

    def clock_gettime(clock: int) -> float:
        return original_clock_gettime(clock) + (suspended_s if clock == time.CLOCK_BOOTTIME else 0.0)

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    before_s = lease_clock.now_s()
    suspended_s = SUSPENSION_S
    assert lease_clock.now_s() - before_s >= SUSPENSION_S
