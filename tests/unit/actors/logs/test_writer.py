"""The writer with and without a lease, which it checks at each attempt."""

from __future__ import annotations

import pytest
from typing_extensions import override

from actors.logs.writer import CLAIM_RETRY_S, RETRY_MAX_S, Writer
from actors.messages.herder import Appended, AppendFailed
from actors.messages.stores import Append, ClaimWrites
from actors.runtime.mailbox import Address
from actors.runtime.system import Begin
from kraal.core.errors import RetryableConflict, StoreError
from kraal.core.records import Entry
from kraal.stores.memory import MemoryLog
from kraal.testing._simulation.scheduler import Scheduler

RUNNING = Entry("status-task-numbers-0", b'{"state":"RUNNING"}')
FAILED = Entry("status-task-numbers-0", b'{"state":"FAILED"}')


class Sink:
    """Records messages."""

    def __init__(self, heard: list[object]) -> None:
        self._heard = heard

    def receive(self, message: object) -> None:
        if not isinstance(message, Begin):
            self._heard.append(message)


class ClaimedLog(MemoryLog):
    """Counts claims, which fail while `away`."""

    def __init__(self) -> None:
        super().__init__("config")
        self.claims = 0
        self.away = False

    @override
    def claim(self) -> None:
        if self.away:
            raise StoreError("unavailable")
        self.claims += 1


class Stage:
    """A writer, its log and its lease."""

    def __init__(self, *, retries: bool) -> None:
        self.scheduler = Scheduler()
        self.log = ClaimedLog()
        self.log.fault = self._fault
        self.away = False
        self.leased = True
        self.heard: list[object] = []
        self.herder, self._writer, reader = Address("herder"), Address("writer"), Address("reader")
        self.scheduler.spawn(self.herder, lambda: Sink(self.heard), lambda _: None)
        self.scheduler.spawn(reader, lambda: Sink([]), lambda _: None)
        self.scheduler.spawn(
            self._writer,
            lambda: Writer(
                address=self._writer,
                clock=self.scheduler.clock,
                target=self.log,
                reader=reader,
                retries=retries,
                lease=lambda: self.leased,
            ),
            lambda _: None,
        )

    def _fault(self, operation: str) -> None:
        if self.away and operation == "append":
            raise StoreError("unavailable")

    def append(self, entry: Entry, *, leased: bool) -> None:
        self._writer.tell(Append(token=1, entries=[entry], reply_to=self.herder, leased=leased))
        self.scheduler.run()

    def claim(self) -> None:
        self._writer.tell(ClaimWrites())
        self.scheduler.run()

    @property
    def written(self) -> list[bytes | None]:
        return [record.value for record in self.log.read(0, 10)]


def test_status_write_is_retried_until_the_log_is_available() -> None:
    stage = Stage(retries=True)
    stage.away = True
    stage.append(RUNNING, leased=True)
    stage.away = False
    stage.scheduler.advance(RETRY_MAX_S)
    assert stage.written == [RUNNING.value]


@pytest.mark.parametrize("leased", [True, False])
def test_leased_status_is_not_retried_without_a_lease(*, leased: bool) -> None:
    stage = Stage(retries=True)
    stage.away = True
    stage.append(RUNNING, leased=leased)
    stage.scheduler.advance(RETRY_MAX_S)
    stage.away, stage.leased = False, False
    stage.scheduler.advance(2 * RETRY_MAX_S)
    stage.leased = True
    stage.scheduler.advance(2 * RETRY_MAX_S)
    assert stage.written == ([] if leased else [RUNNING.value]), "nor when there is a lease again"


def test_abandoned_status_write_does_not_block_the_next() -> None:
    stage = Stage(retries=True)
    stage.away = True
    stage.append(RUNNING, leased=True)
    stage.leased = False
    stage.scheduler.advance(RETRY_MAX_S)
    stage.leased = True
    stage.append(FAILED, leased=True)
    stage.away = False
    stage.scheduler.advance(2 * RETRY_MAX_S)
    assert stage.written == [FAILED.value]


def test_leased_config_write_without_a_lease_is_retriable() -> None:
    stage = Stage(retries=False)
    stage.leased = False
    stage.append(RUNNING, leased=True)
    [failed] = stage.heard
    assert isinstance(failed, AppendFailed)
    assert isinstance(failed.error, RetryableConflict)
    stage.append(RUNNING, leased=False)
    assert isinstance(stage.heard[-1], Appended)
    assert stage.written == [RUNNING.value]


def test_worker_without_a_lease_does_not_fence_a_newer_leader() -> None:
    stage = Stage(retries=False)
    stage.claim()
    assert stage.log.claims == 1
    stage.log.away = True
    stage.claim()
    stage.log.away, stage.leased = False, False
    stage.scheduler.advance(4 * CLAIM_RETRY_S)
    stage.leased = True
    stage.scheduler.advance(4 * CLAIM_RETRY_S)
    assert stage.log.claims == 1
