"""Session keys, with which workers sign requests to each other. The leader writes and rotates the keys.

Part of the herder; runs on its thread only. Every worker reads the key from the config topic, so any client that can
read that topic can sign requests as a worker (KIP-507).
Source: DistributedHerder.checkForKeyRotation (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.messages.herder import CheckSessionKey
from actors.runtime.mailbox import Reply
from kraal.core.records import Entry
from kraal.protocol.records import encode
from kraal.protocol.signature import generate_key, needs_new_key

if TYPE_CHECKING:
    from actors.herding.state import HerderState

log = logging.getLogger(__name__)

RETRY_DELAY_S = 1.0


class SessionKeys:
    """Writes a key, as leader, if requests are signed and the current key is missing, expired or outdated."""

    def __init__(self, state: HerderState) -> None:
        self._state = state
        self._is_writing = False
        self._check_due_s: float | None = None

    def check(self) -> None:
        """Write a key if one is due; otherwise schedule a check for when the current key expires."""
        state, settings = self._state, self._state.settings.session_keys
        protocol = state.snapshot.protocol
        if settings is None or protocol is None or not protocol.is_signed or not state.snapshot.is_leader:
            return
        now_ms = state.clock.wall_ms()
        key = state.snapshot.config.session_key
        if needs_new_key(key, now_ms, settings.ttl_ms, settings.algorithm, settings.size):
            self._write(now_ms)
        elif key is not None and settings.ttl_ms > 0:
            self._schedule_check((key.created_ms + settings.ttl_ms - now_ms) / 1000)

    def on_due(self) -> None:
        """Handle a scheduled check."""
        self._check_due_s = None
        self.check()

    def _write(self, now_ms: int) -> None:
        if self._is_writing:
            return
        self._is_writing = True
        settings = self._state.settings.session_keys
        assert settings is not None  # noqa: S101 - check() verified
        reply: Reply[None] = Reply()
        entry = Entry(*encode(generate_key(now_ms, settings.algorithm, settings.size)))
        self._state.writes.write_config([entry], reply, lambda: reply.set(None))
        reply.future.add_done_callback(lambda f: self._on_written(f.exception()))

    def _on_written(self, error: BaseException | None) -> None:
        self._is_writing = False
        if error is None:
            self.check()
        else:
            log.error("Failed to write a session key, retrying: %s", error)
            self._schedule_check(RETRY_DELAY_S)

    def _schedule_check(self, delay_s: float) -> None:
        due_s = self._state.clock.now() + delay_s
        if self._check_due_s is None or due_s < self._check_due_s:
            self._check_due_s = due_s
            self._state.clock.after(delay_s, self._state.actors.herder, CheckSessionKey())
