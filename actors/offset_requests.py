"""Requests about offsets (KIP-875), as far as the herder decides them: who may, when, and who is answered.

Part of the herder; its thread only. The offsets themselves are the offset desk's. A modification takes these steps,
and is looked at again after each that takes time, because another request may have come between: is a rebalance
due, do we lead, is the config read to its end, is there such a connector and is it STOPPED without tasks, has the
rebalance that took its tasks away come to its end, and are zombies fenced that could write after us.

Java's requests wait in the queue of the thread that rebalances; so does a modification here that comes while
assignments are about to change. In standalone the tasks that stop are our own, so nothing is ever momentary there.
Source: AbstractHerder.connectorOffsets, DistributedHerder.modifyConnectorOffsets (Kafka 4.3.0); contract 9.2.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.mailbox import Reply
from actors.messages.offsets import (
    AlterOffsets,
    FetchOffsets,
    ModifyOffsets,
    OffsetsFetched,
    OffsetsModified,
    ResetOffsets,
)
from actors.messages.stores import ReadToEnd
from kraal.cluster import offsets as words
from kraal.errors import ActorDied, KraalError

if TYPE_CHECKING:
    from actors.fencings import Fencings
    from actors.herd import Herd
    from actors.messages.herder import EndRead
    from actors.messages.offsets import ShowOffsets
    from actors.rebalances import Rebalances

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Modification:
    message: AlterOffsets | ResetOffsets
    reply: Reply[Any]
    fenced: bool = False


class OffsetRequests:
    """Takes requests about offsets as far as the desk, and their answers back."""

    def __init__(self, herd: Herd, rebalances: Rebalances, fencings: Fencings) -> None:
        self._herd = herd
        self._group = rebalances
        self._fencings = fencings
        self._reading: dict[int, _Modification] = {}
        """Wait until the config is read to its end."""
        self._due: list[_Modification] = []
        """Wait for the end of a rebalance."""
        self._at_desk: dict[int, Reply[Any]] = {}

    def show(self, message: ShowOffsets, reply: Reply[Any]) -> None:
        """GET: of any connector, in any state, on any worker. Raises NotFound."""
        snapshot = self._herd.snapshot
        entry = words.connector(snapshot.config, message.name)
        self._herd.links.offset_desk.tell(
            FetchOffsets(
                token=self._hand_over(reply),
                name=message.name,
                kind=snapshot.types.get(message.name, "unknown"),
                config=entry.config,
                reply_to=self._herd.links.herder,
            )
        )

    def modify(self, message: AlterOffsets | ResetOffsets, reply: Reply[Any]) -> None:
        """PATCH and DELETE. Raises Momentary, NotLeader; the rest comes with the reply."""
        if not self._herd.settings.standalone:
            self._group.fresh()
        self._group.lead()
        token = self._herd.waits.token()
        self._reading[token] = _Modification(message, reply)
        self._herd.links.config_reader.tell(ReadToEnd(token))

    def end_read(self, message: EndRead) -> None:
        """The config is read as far as it went when the request came."""
        found = self._reading.pop(message.token, None)
        if found is None:
            return
        if message.error is None:
            self._go_on_with(found)
        else:
            log.error("%s: %s", words.CONFIG_UNREAD, message.error)
            found.reply.fail(KraalError(words.CONFIG_UNREAD))

    def go_on(self) -> None:
        """No rebalance is due or under way, perhaps."""
        due, self._due = self._due, []
        for modification in due:
            self._go_on_with(modification)

    def answered(self, message: OffsetsFetched | OffsetsModified) -> None:
        """The desk has done its part."""
        reply = self._at_desk.pop(message.token, None)
        if reply is None:
            return
        if message.error is not None:
            reply.fail(message.error)
        else:
            reply.set(message.pairs if isinstance(message, OffsetsFetched) else message.text)

    def lose_desk(self) -> None:
        """The desk died: which requests it had begun is unknown."""
        lost, self._at_desk = self._at_desk, {}
        for reply in lost.values():
            reply.fail(ActorDied("the offset desk died; offsets may or may not be modified"))

    def lose_reader(self) -> None:
        """A reader died, perhaps the config's, with our questions; it was told where to go on, and is asked again."""
        for token in self._reading:
            self._herd.links.config_reader.tell(ReadToEnd(token))

    def _go_on_with(self, modification: _Modification) -> None:
        try:
            self._advance(modification)
        except KraalError as error:
            modification.reply.fail(error)

    def _advance(self, modification: _Modification) -> None:
        herd, name = self._herd, modification.message.name
        self._group.lead()
        entry = words.modifiable(herd.snapshot.config, name)
        if self._group.unsettled:
            self._due.append(modification)
            return
        kind = herd.snapshot.types.get(name, "unknown")
        if kind == "source" and herd.settings.transactional and not modification.fenced:
            self._fence(modification)
            return
        # First of all: what cannot be understood raises.
        given = modification.message.offsets if isinstance(modification.message, AlterOffsets) else ()
        source = words.source_changes(given) if kind == "source" else {}
        sink = words.sink_changes(given) if kind == "sink" else {}
        herd.links.offset_desk.tell(
            ModifyOffsets(
                token=self._hand_over(modification.reply),
                name=name,
                kind=kind,
                config=entry.config,
                reset=isinstance(modification.message, ResetOffsets),
                source=source,
                sink=sink,
                reply_to=herd.links.herder,
            )
        )

    def _fence(self, modification: _Modification) -> None:
        """Shut out tasks that write exactly once and were not heard of for long (KIP-618)."""
        reply: Reply[None] = Reply()

        def fenced() -> None:
            error = reply.future.exception()
            if error is None:
                modification.fenced = True
                self._go_on_with(modification)
            else:
                log.error("%s: %s", words.NOT_FENCED, error)
                modification.reply.fail(KraalError(words.NOT_FENCED))

        self._fencings.fence(modification.message.name, reply)
        reply.future.add_done_callback(lambda _: fenced())

    def _hand_over(self, reply: Reply[Any]) -> int:
        token = self._herd.waits.token()
        self._at_desk[token] = reply
        return token
