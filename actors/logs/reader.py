"""Reader of one internal log: sends its records to the herder in order. Only this actor reads the log.

The reader reports when it has reached the log's end as of the start of the replay; until then, the herder applies the
records without acting on them. A restarted herder requests all records again (`Replay`) under a new number, so that it
can drop records of the older replay. A restarted reader receives the offset at which it continues.

A log that only this worker writes is read when its writer signals new records. A log with other writers is
*followed*: the reader blocks until the next record, and then sends itself a message to read again.
`ReadToEnd` requests all records that are in the log when the reader handles the message.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from actors.messages.herder import EndReached, RecordsRead
from actors.messages.stores import PollNext, ReaderMessage, ReadNext, ReadToEnd, Replay
from actors.runtime.system import Begin
from kraal.core.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.core.records import Record
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

MAX_RECORDS_PER_MESSAGE = 5_000
"""Maximum number of records per message: a trade-off between throughput and the herder's responsiveness."""
RETRY_DELAY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """Timing for following a log with other writers, in seconds."""

    wait_s: float = 0.25
    """Maximum time that one read waits for a record. The reader handles no other messages meanwhile."""
    pause_s: float = 0.0
    """Pause between two reads, for logs without blocking reads, such as in-memory logs."""


class Reader:
    """Reads one log. Starts when it receives `Replay`."""

    def __init__(
        self,
        *,
        address: Address,
        clock: Clock,
        source: Log,
        topic: str,
        herder: Address,
        follow: Follow | None = None,
    ) -> None:
        """`follow`: set if other workers also write to the log."""
        self._address = address
        self._clock = clock
        self._log = source
        self._topic = topic
        self._herder = herder
        self._follow = follow
        self._turn = 0
        """Number of scheduled reads of a followed log; messages of earlier reads are dropped."""
        self._replay = 0
        self._position = 0
        self._replay_end: int | None = None
        self._is_caught_up = False
        self._early_requests: list[ReadToEnd] = []
        """Requests received before the herder set the position."""

    def receive(self, message: ReaderMessage) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case Replay():
                self._replay, self._position = message.number, message.start
                self._replay_end, self._is_caught_up = None, False
                self._read()
                requests, self._early_requests = self._early_requests, []
                for request in requests:
                    self._read_to_end(request)
            case ReadNext():
                if self._follow is None:
                    self._read()
            case PollNext():
                if message.turn == self._turn:
                    self._read()
            case ReadToEnd():
                self._read_to_end(message)
            case _:
                assert_never(message)

    def _read(self) -> None:
        if not self._replay:
            return
        wait_s = self._follow.wait_s if self._follow is not None and self._is_caught_up else 0.0
        try:
            if self._replay_end is None:
                self._replay_end = self._log.end()
            records = self._log.read(self._position, MAX_RECORDS_PER_MESSAGE, wait_s)
        except StoreError as error:
            log.warning("Failed to read the %s log, retrying: %s", self._log.name, error)
            self._schedule_read(RETRY_DELAY_S)
            return
        self._feed(records)
        if self._follow is not None:
            self._schedule_read(self._follow.pause_s)
        elif len(records) == MAX_RECORDS_PER_MESSAGE:
            self._address.tell(ReadNext())

    def _read_to_end(self, message: ReadToEnd) -> None:
        if not self._replay:
            self._early_requests.append(message)
            return
        try:
            end = self._log.end()
            while self._position < end and (
                records := self._log.read(self._position, MAX_RECORDS_PER_MESSAGE)
            ):
                self._feed(records)
        except StoreError as error:
            self._herder.tell(EndReached(token=message.token, error=error))
        else:
            self._herder.tell(EndReached(token=message.token))

    def _schedule_read(self, delay_s: float) -> None:
        message: ReaderMessage = ReadNext()
        if self._follow is not None:
            self._turn += 1
            message = PollNext(self._turn)
        if delay_s:
            self._clock.after(delay_s, self._address, message)
        else:
            self._address.tell(message)

    def _feed(self, records: Sequence[Record]) -> None:
        """Send records to the herder with the reader's position; once caught up, an empty read sends nothing."""
        if records:
            self._position = records[-1].offset + 1
        is_done = not records or (self._replay_end is not None and self._position >= self._replay_end)
        if not records and self._is_caught_up:
            return
        self._is_caught_up = self._is_caught_up or is_done
        self._herder.tell(
            RecordsRead(
                topic=self._topic,
                records=records,
                next_offset=self._position,
                caught_up=self._is_caught_up,
                replay=self._replay,
            )
        )
