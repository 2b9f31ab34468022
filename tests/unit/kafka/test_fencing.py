"""Tests for the concurrent fencing of many producers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import KafkaError, KafkaException

from kraal.core.errors import StoreError
from kraal.kafka import fencing
from kraal.kafka.fencing import MAX_HELPERS, fence_producers

SETTINGS = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
IDS = [f"g-c-{number}" for number in range(30)]


class Broker:
    """A fake broker. Tests delay its responses to `init_transactions`, and choose the IDs that it rejects."""

    def __init__(self) -> None:
        self.rejected_ids: set[str] = set()
        self.requests: list[str] = []
        self.fenced_ids: list[str] = []
        self.blocked_ids: set[str] = set()
        """IDs whose responses are not released until the IDs are removed."""
        self.max_open_count = 0
        self._open_count = 0
        self._changed = threading.Condition()
        self._is_holding = True

    def initialize(self, transactional_id: str) -> None:
        with self._changed:
            self.requests.append(transactional_id)
            self._open_count += 1
            self.max_open_count = max(self.max_open_count, self._open_count)
            self._changed.notify_all()
            assert self._changed.wait_for(
                lambda: not self._is_holding and transactional_id not in self.blocked_ids, 20
            )
            self._open_count -= 1
            if transactional_id in self.rejected_ids:
                raise KafkaException(KafkaError(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
            self.fenced_ids.append(transactional_id)

    def await_open(self, count: int) -> None:
        with self._changed:
            is_open = self._changed.wait_for(lambda: self._open_count >= count, 20)
            assert is_open, f"only {self._open_count} calls are open"

    def hold(self, *, is_holding: bool = True) -> None:
        with self._changed:
            self._is_holding = is_holding
            self._changed.notify_all()

    def release(self) -> None:
        self.hold(is_holding=False)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    fake_broker = Broker()

    class FakeProducer:
        def __init__(self, settings: dict[str, str]) -> None:
            assert "group.id" not in settings
            self._id = settings["transactional.id"]

        def init_transactions(self, timeout: float) -> None:
            assert timeout == 5
            fake_broker.initialize(self._id)

    monkeypatch.setattr(fencing, "Producer", FakeProducer)
    yield fake_broker
    fake_broker.blocked_ids.clear()
    fake_broker.release()


def fence(ids: list[str]) -> None:
    fence_producers(SETTINGS, ids, client_id="c", timeout_s=5)


def test_producers_are_fenced_concurrently_and_caller_waits(broker: Broker) -> None:
    with ThreadPoolExecutor() as callers:
        future = callers.submit(fence, IDS)
        broker.await_open(MAX_HELPERS + 1)
        broker.blocked_ids = {IDS[0], IDS[1]}
        broker.release()
        for blocked_id in IDS[:2]:
            with pytest.raises(TimeoutError):
                future.result(0.1)
            broker.blocked_ids.remove(blocked_id)
            broker.release()
        future.result(20)
    assert sorted(broker.fenced_ids) == sorted(IDS)
    assert broker.max_open_count == MAX_HELPERS + 1


def test_all_callers_share_the_helper_threads(broker: Broker) -> None:
    with ThreadPoolExecutor() as callers:
        futures = [callers.submit(fence, [f"{name}-{number}" for number in range(10)]) for name in "abc"]
        broker.await_open(MAX_HELPERS + 3)
        broker.release()
        for future in futures:
            future.result(20)
    assert len(broker.fenced_ids) == 30
    assert broker.max_open_count == MAX_HELPERS + 3


def test_failure_is_raised_after_pending_calls(broker: Broker) -> None:
    broker.rejected_ids = set(IDS)
    with ThreadPoolExecutor() as callers:
        future = callers.submit(fence, IDS)
        broker.await_open(MAX_HELPERS + 1)
        broker.release()
        with pytest.raises(StoreError, match=r"cannot fence the producer 'g-c-[0-9]'"):
            future.result(20)
    assert len(broker.requests) == MAX_HELPERS + 1
    assert broker.fenced_ids == []


def test_helpers_are_released_after_failures(broker: Broker) -> None:
    broker.release()
    broker.rejected_ids = {IDS[0]}
    for _ in range(MAX_HELPERS + 1):
        with pytest.raises(StoreError):
            fence(IDS[:2])
    broker.rejected_ids = set()
    broker.hold()
    with ThreadPoolExecutor() as callers:
        future = callers.submit(fence, IDS)
        broker.await_open(MAX_HELPERS + 1)
        broker.release()
        future.result(20)


def test_fencing_no_producers_sends_no_requests(broker: Broker) -> None:
    fence([])
    assert broker.max_open_count == 0
