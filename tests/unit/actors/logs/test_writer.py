"""Tests for the log writer, which neither writes leased records nor claims the log without the worker's lease."""

from __future__ import annotations

import pytest
from typing_extensions import override

from actors.logs.writer import CLAIM_RETRY_DELAY_S, MAX_RETRY_DELAY_S, Writer
from actors.messages.herder import Appended, AppendFailed
from actors.messages.stores import Append, ClaimWrites
from actors.runtime.mailbox import Address
from actors.runtime.system import Begin
from kraal.core.errors import RetryableConflict, StoreError
from kraal.core.records import Entry
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.scheduler import Scheduler

RUNNING_ENTRY = Entry("status-task-numbers-0", b'{"state":"RUNNING"}')
FAILED_ENTRY = Entry("status-task-numbers-0", b'{"state":"FAILED"}')


class MessageRecorder:
    """An actor that records messages."""

    def __init__(self, messages: list[object]) -> None:
        self._messages = messages

    def receive(self, message: object) -> None:
        if not isinstance(message, Begin):
            self._messages.append(message)


class ClaimedLog(MemoryLog):
    """A log that counts successful claims. Claims fail while `is_unavailable` is true."""

    def __init__(self) -> None:
        super().__init__("config")
        self.claim_count = 0
        self.is_unavailable = False

    @override
    def claim(self) -> None:
        if self.is_unavailable:
            raise StoreError("unavailable")
        self.claim_count += 1


class WriterHarness:
    """A writer with a log and a lease."""

    def __init__(self, *, retries: bool) -> None:
        self.scheduler = Scheduler()
        self.log = ClaimedLog()
        self.log.fault = self._fault
        self.is_unavailable = False
        self.has_lease = True
        self.herder_messages: list[object] = []
        self.herder, self._writer, reader = Address("herder"), Address("writer"), Address("reader")
        self.scheduler.spawn(self.herder, lambda: MessageRecorder(self.herder_messages), lambda _: None)
        self.scheduler.spawn(reader, lambda: MessageRecorder([]), lambda _: None)
        self.scheduler.spawn(
            self._writer,
            lambda: Writer(
                address=self._writer,
                clock=self.scheduler.clock,
                target=self.log,
                reader=reader,
                retries=retries,
                lease=lambda: self.has_lease,
            ),
            lambda _: None,
        )

    def _fault(self, operation: str) -> None:
        if self.is_unavailable and operation == "append":
            raise StoreError("unavailable")

    def append(self, entry: Entry, *, leased: bool) -> None:
        self._writer.tell(Append(token=1, entries=[entry], reply_to=self.herder, leased=leased))
        self.scheduler.run()

    def claim(self) -> None:
        self._writer.tell(ClaimWrites())
        self.scheduler.run()

    @property
    def written_values(self) -> list[bytes | None]:
        return [record.value for record in self.log.read(0, 10)]


def test_status_write_is_retried_until_the_log_is_available() -> None:
    harness = WriterHarness(retries=True)
    harness.is_unavailable = True
    harness.append(RUNNING_ENTRY, leased=True)
    harness.is_unavailable = False
    harness.scheduler.advance(MAX_RETRY_DELAY_S)
    assert harness.written_values == [RUNNING_ENTRY.value]


@pytest.mark.parametrize("leased", [True, False])
def test_leased_status_is_not_retried_without_a_lease(*, leased: bool) -> None:
    harness = WriterHarness(retries=True)
    harness.is_unavailable = True
    harness.append(RUNNING_ENTRY, leased=leased)
    harness.scheduler.advance(MAX_RETRY_DELAY_S)
    harness.is_unavailable, harness.has_lease = False, False
    harness.scheduler.advance(2 * MAX_RETRY_DELAY_S)
    harness.has_lease = True
    harness.scheduler.advance(2 * MAX_RETRY_DELAY_S)
    assert harness.written_values == ([] if leased else [RUNNING_ENTRY.value]), (
        "a leased write is not retried after the lease is renewed"
    )


def test_abandoned_status_write_does_not_block_the_next() -> None:
    harness = WriterHarness(retries=True)
    harness.is_unavailable = True
    harness.append(RUNNING_ENTRY, leased=True)
    harness.has_lease = False
    harness.scheduler.advance(MAX_RETRY_DELAY_S)
    harness.has_lease = True
    harness.append(FAILED_ENTRY, leased=True)
    harness.is_unavailable = False
    harness.scheduler.advance(2 * MAX_RETRY_DELAY_S)
    assert harness.written_values == [FAILED_ENTRY.value]


def test_leased_config_write_without_a_lease_is_retriable() -> None:
    harness = WriterHarness(retries=False)
    harness.has_lease = False
    harness.append(RUNNING_ENTRY, leased=True)
    [failure] = harness.herder_messages
    assert isinstance(failure, AppendFailed)
    assert isinstance(failure.error, RetryableConflict)
    harness.append(RUNNING_ENTRY, leased=False)
    assert isinstance(harness.herder_messages[-1], Appended)
    assert harness.written_values == [RUNNING_ENTRY.value]


def test_claim_is_not_retried_after_the_lease_was_lost() -> None:
    harness = WriterHarness(retries=False)
    harness.claim()
    assert harness.log.claim_count == 1
    harness.log.is_unavailable = True
    harness.claim()
    harness.log.is_unavailable, harness.has_lease = False, False
    harness.scheduler.advance(4 * CLAIM_RETRY_DELAY_S)
    harness.has_lease = True
    harness.scheduler.advance(4 * CLAIM_RETRY_DELAY_S)
    assert harness.log.claim_count == 1
