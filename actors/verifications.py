"""Whether a task that is about to write exactly once is still to run here, and by these task configs (KIP-618).

Part of the herder; its thread only. Asked when the task's producer has fenced all older ones, so that a task which was
replaced meanwhile ends before it writes anything.
Source: DistributedHerder.verifyTaskGenerationAndOwnership (Kafka 4.3.0); contract 6.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.messages.stores import ReadToEnd
from kraal.errors import KraalError, StoreAway

if TYPE_CHECKING:
    from actors.herd import Herd
    from actors.mailbox import Reply
    from actors.messages.claims import VerifyTask
    from actors.messages.herder import EndRead

UNREAD = "Failed to read to end of config topic"


class Verifications:
    """Answers when the config is read to its end."""

    def __init__(self, herd: Herd) -> None:
        self._herd = herd
        self._reading: dict[int, tuple[VerifyTask, Reply[Any]]] = {}

    def verify(self, message: VerifyTask, reply: Reply[Any]) -> None:
        """Answer, or fail with what is not so any more."""
        token = self._herd.waits.token()
        self._reading[token] = (message, reply)
        self._herd.links.config_reader.tell(ReadToEnd(token))

    def end_read(self, message: EndRead) -> None:
        """The config is read as far as it went when the question came."""
        found = self._reading.pop(message.token, None)
        if found is None:
            return
        asked, reply = found
        task = asked.task
        entry = self._herd.snapshot.config.connectors.get(task.connector)
        if message.error is not None:
            reply.fail(StoreAway(f"{UNREAD}: {message.error}"))
        elif entry is None or entry.tasks_version != asked.version:
            text = (
                f"Cannot start source task {task} with exactly-once support as the connector has already generated "
                "a new set of task configs"
            )
            reply.fail(KraalError(text))
        elif not self._herd.assignment.owns(task):
            text = f"Cannot start source task {task} as it has already been revoked from this worker"
            reply.fail(KraalError(text))
        else:
            reply.set(None)

    def lose_reader(self) -> None:
        """A reader died, perhaps the config's, with our questions: it is asked again."""
        for token in self._reading:
            self._herd.links.config_reader.tell(ReadToEnd(token))
