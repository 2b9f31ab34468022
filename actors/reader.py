"""Reads one internal log and feeds it to the herder, in order; the only user of the log's reading side.

It says when it has caught up with the end that the log had when it began: before that, the herder only
collects. A herder that was restarted asks for everything again (`Replay`), under a new number, so that what is
still on its way from the older replay is dropped. A reader that was restarted is told where to go on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, assert_never

from actors.messages.herder import RecordsRead
from actors.messages.stores import ReaderMessage, ReadOn, Replay
from actors.system import Begin
from kraal.errors import StoreError

if TYPE_CHECKING:
    from actors.clock import Clock
    from actors.mailbox import Address
    from kraal.stores.api import Log

log = logging.getLogger(__name__)

BATCH = 5_000
"""Records in one message: enough to be quick, few enough for the herder to stay quick."""
RETRY_S = 1.0


class Reader:
    """Owns the reading side of one log. Starts to read when it is asked to replay."""

    def __init__(self, *, address: Address, clock: Clock, source: Log, topic: str, herder: Address) -> None:
        self._address = address
        self._clock = clock
        self._log = source
        self._topic = topic
        self._herder = herder
        self._replay = 0
        self._position = 0
        self._goal: int | None = None
        self._caught_up = False

    def receive(self, message: ReaderMessage) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case Replay():
                self._replay, self._position = message.number, message.start
                self._goal, self._caught_up = None, False
                self._read()
            case ReadOn():
                self._read()
            case _:
                assert_never(message)

    def _read(self) -> None:
        if not self._replay:
            return
        try:
            if self._goal is None:
                self._goal = self._log.end()
            records = self._log.read(self._position, BATCH)
        except StoreError as error:
            log.warning("could not read the %s log, trying again: %s", self._log.name, error)
            self._clock.after(RETRY_S, self._address, ReadOn())
            return
        if records:
            self._position = records[-1].offset + 1
        done = self._position >= self._goal or not records
        if not records and self._caught_up:
            return
        self._caught_up = self._caught_up or done
        self._herder.tell(
            RecordsRead(
                topic=self._topic,
                records=records,
                next_offset=self._position,
                caught_up=self._caught_up,
                replay=self._replay,
            )
        )
        if len(records) == BATCH:
            self._address.tell(ReadOn())
