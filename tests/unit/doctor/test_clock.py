"""Tests for clock checks: the kernel's state, record timestamps, and the `Date` header of workers."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from kraal.config.worker.distributed import InternalTopic
from kraal.core.errors import StoreError
from kraal.doctor import storage_topics
from kraal.doctor.clock import check_clock, check_worker_time, kernel_state
from kraal.doctor.finding import Level
from kraal.doctor.storage_topics import Storage, check_times
from kraal.kafka.topics import TopicDescription

SERVER_TIME_S = 1_800_000_000
SERVER_DATE = "Fri, 15 Jan 2027 08:00:00 GMT"


def test_unreadable_kernel_clock_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    class FailingLibc:
        @staticmethod
        def adjtimex(buffer: Any) -> int:
            assert bytes(buffer) == bytes(len(buffer)), (
                "a zeroed buffer reads the clock; any other buffer sets it"
            )
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda _: FailingLibc)
    assert [finding.level for finding in check_clock()] == [Level.SKIPPED]
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert kernel_state() is None


@pytest.mark.parametrize(
    ("sent_s", "received_s", "level", "expected_text"),
    [
        (0.0, 0.1, Level.OK, "less than 5 s"),
        (-30.0, -29.9, Level.WARNING, "is 30 s ahead of this"),
        (61.0, 61.1, Level.WARNING, "is 60 s behind this"),
        (-40.0, 40.0, Level.OK, "less than 5 s"),
    ],
)
def test_worker_clock_offset_is_checked(
    sent_s: float, received_s: float, level: Level, expected_text: str
) -> None:
    """The `Date` header of a slow response may be from any time between request and response."""
    finding = check_worker_time("http://w:1", SERVER_DATE, SERVER_TIME_S + sent_s, SERVER_TIME_S + received_s)
    assert (finding.id, finding.level, expected_text in finding.what) == ("clock.worker", level, True), (
        finding
    )


@pytest.mark.parametrize("date", [None, "", "soon"])
def test_worker_without_a_date_header_is_skipped(date: str | None) -> None:
    assert check_worker_time("http://w:1", date, SERVER_TIME_S, SERVER_TIME_S).level is Level.SKIPPED


class FakeAdmin:
    """A fake admin client with the time of the latest record of each topic (None: the topic is empty)."""

    def __init__(self, times: dict[str, int | None]) -> None:
        self._times = times

    def latest_time_ms(self, topic: str, partitions: int) -> int | None:
        assert partitions == 3
        return self._times[topic]


@pytest.mark.parametrize(
    ("times", "level", "expected_text"),
    [
        ({}, Level.SKIPPED, "No worker has written"),
        ({"a": None}, Level.SKIPPED, "No worker has written"),
        ({"a": 1_000, "b": None, "c": 999}, Level.OK, "The topic a "),
        ({"a": 1_000, "c": 67_000}, Level.WARNING, "topic c is 66 s in the future"),
    ],
)
def test_latest_record_of_all_storage_topics_is_checked(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, int | None], level: Level, expected_text: str
) -> None:
    monkeypatch.setattr(storage_topics, "now_s", lambda: 1.0)
    topics = [
        InternalTopic(key="k", name=name, partitions=3, replication_factor=1, settings={}) for name in "abc"
    ]
    missing_topic = StoreError("does not exist")
    storages = [
        Storage(topic, TopicDescription("id", 3, 1) if topic.name in times else missing_topic, {})
        for topic in topics
    ]
    finding = check_times(FakeAdmin(times), storages)  # type: ignore[arg-type]
    assert (finding.id, finding.level, expected_text in finding.what) == ("clock.records", level, True)
