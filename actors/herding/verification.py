"""Verification that an exactly-once task is still assigned to this worker with the same task configs (KIP-618).

Part of the herder; runs on its thread only. A claim requests the verification after its producer has fenced older
producers, so that a task that was replaced meanwhile stops before it writes records.
Source: DistributedHerder.verifyTaskGenerationAndOwnership (Kafka 4.4.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.messages.stores import ReadToEnd
from kraal.core.errors import KraalError, StoreUnavailable

if TYPE_CHECKING:
    from actors.herding.state import HerderState
    from actors.messages.claims import VerifyTask
    from actors.messages.herder import EndReached
    from actors.runtime.mailbox import Reply

READ_FAILED = "Failed to read to end of config topic"


class Verifications:
    """Completes verifications when the config has been read to its end."""

    def __init__(self, state: HerderState) -> None:
        self._state = state
        self._pending: dict[int, tuple[VerifyTask, Reply[Any]]] = {}

    def verify(self, message: VerifyTask, reply: Reply[Any]) -> None:
        """Set `reply` if the task is valid; otherwise fail it with the reason."""
        token = self._state.writes.next_token()
        self._pending[token] = (message, reply)
        self._state.actors.config_reader.tell(ReadToEnd(token))

    def on_end_reached(self, message: EndReached) -> None:
        """Complete a verification once the config has been read to its end as of the request."""
        verification = self._pending.pop(message.token, None)
        if verification is None:
            return
        request, reply = verification
        task = request.task
        entry = self._state.snapshot.config.connectors.get(task.connector)
        if message.error is not None:
            reply.fail(StoreUnavailable(f"{READ_FAILED}: {message.error}"))
        elif entry is None or entry.tasks_version != request.version:
            text = (
                f"Cannot start source task {task} with exactly-once support as the connector has already generated "
                "a new set of task configs"
            )
            reply.fail(KraalError(text))
        elif not self._state.work.assignment.owns(task):
            text = f"Cannot start source task {task} as it has already been revoked from this worker"
            reply.fail(KraalError(text))
        else:
            reply.set(None)

    def on_reader_lost(self) -> None:
        """Resend pending requests to the config reader after a reader died."""
        for token in self._pending:
            self._state.actors.config_reader.tell(ReadToEnd(token))
