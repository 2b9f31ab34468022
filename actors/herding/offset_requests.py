"""The herder's part of offset requests (KIP-875): checks preconditions and completes the requests.

Runs on the herder's thread only. The offset service reads and changes the offsets. A modification is checked again
after each asynchronous step, because another request may have been processed in the meantime. For a modification, this
worker must be the leader and have read the config topic to its end, and no rebalance may be due. The connector must
exist and be STOPPED without tasks, the rebalance that revoked its tasks must be complete, and zombies that could still
write must be fenced.

In Java, modifications wait in the queue of the herder's tick thread; in Kraal, a modification waits while a rebalance
is due or in progress. In standalone mode, the worker stops its own tasks, so RetryableConflict is never raised.
Source: AbstractHerder.connectorOffsets, DistributedHerder.modifyConnectorOffsets (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.herding.settled_requests import DeferredRequests
from actors.messages.offsets import (
    AlterOffsets,
    FetchOffsets,
    LaggedOffsets,
    ModifyOffsets,
    OffsetsFetched,
    OffsetsModified,
    ResetOffsets,
    ShowLags,
)
from actors.runtime.mailbox import Reply
from kraal.cluster.decisions import offsets as offset_rules
from kraal.core.errors import ActorDied, KraalError

if TYPE_CHECKING:
    from actors.herding.fencing_rounds import FencingRounds
    from actors.herding.rebalances import Rebalances
    from actors.herding.state import HerderState
    from actors.messages.offsets import ShowOffsets
    from kraal.core.ids import Config, ConnectorName
    from kraal.core.offsets import Pair

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Modification:
    message: AlterOffsets | ResetOffsets
    reply: Reply[Any]
    is_fenced: bool = False


class OffsetRequests:
    """Forwards offset requests to the offset service, and the service's replies to the callers."""

    def __init__(self, state: HerderState, rebalances: Rebalances, fencings: FencingRounds) -> None:
        self._state = state
        self._rebalances = rebalances
        self._fencings = fencings
        self.deferred_requests = DeferredRequests(state, self._advance, _fail)
        self._service_replies: dict[int, tuple[Reply[Any], Callable[[Any], object]]] = {}
        """Replies by token, each with a function that converts the service's result."""

    def show(self, message: ShowOffsets | ShowLags, reply: Reply[Any]) -> None:
        """Handle GET for a connector in any state, on any worker. Raises NotFound."""
        snapshot = self._state.snapshot
        entry = snapshot.config.connector(message.name)
        with_lags = isinstance(message, ShowLags)
        self._state.actors.offset_service.tell(
            FetchOffsets(
                token=self._register_reply(reply, _add_lags if with_lags else _get_pairs),
                with_lags=with_lags,
                name=message.name,
                kind=snapshot.types.get(message.name, "unknown"),
                config=entry.config,
                reply_to=self._state.actors.herder,
            )
        )

    def modify(self, message: AlterOffsets | ResetOffsets, reply: Reply[Any]) -> None:
        """Handle PATCH and DELETE. Raises RetryableConflict, NotLeader; the reply reports other errors."""
        if not self._state.settings.standalone:
            self._rebalances.check_offsets_may_change()
        self._rebalances.check_leader()
        self._state.history.record_offset_request(message, reply.future)
        self.deferred_requests.add(_Modification(message, reply))

    def on_result(self, message: OffsetsFetched | OffsetsModified) -> None:
        """Complete a request with the offset service's result."""
        request = self._service_replies.pop(message.token, None)
        if request is None:
            return
        reply, render = request
        if message.error is not None:
            reply.fail(message.error)
        else:
            reply.set(render(message))

    def on_service_lost(self) -> None:
        """Fail all requests that were sent to the offset service, which has died; their results are unknown."""
        requests, self._service_replies = self._service_replies, {}
        for reply, _ in requests.values():
            reply.fail(ActorDied("the offset service died; offsets may or may not have been modified"))

    def _advance(self, modification: _Modification) -> None:
        state, name = self._state, modification.message.name
        self._rebalances.check_leader()
        entry = offset_rules.check_modifiable(state.snapshot.config, name)
        if self._rebalances.may_run_removed_tasks:
            self.deferred_requests.wait(modification)
            return
        kind = state.snapshot.types.get(name, "unknown")
        if kind == "source" and state.settings.transactional and not modification.is_fenced:
            self._fence(modification)
            return
        # Parsing raises for malformed offsets, before the request is sent.
        pairs = modification.message.offsets if isinstance(modification.message, AlterOffsets) else ()
        source = offset_rules.source_changes(pairs) if kind == "source" else {}
        sink = offset_rules.sink_changes(pairs) if kind == "sink" else {}
        state.actors.offset_service.tell(
            ModifyOffsets(
                token=self._register_reply(modification.reply, _get_text),
                name=name,
                kind=kind,
                config=entry.config,
                reset=isinstance(modification.message, ResetOffsets),
                source=source,
                sink=sink,
                reply_to=state.actors.herder,
            )
        )

    def _fence(self, modification: _Modification) -> None:
        """Fence exactly-once tasks that may still run (KIP-618)."""
        reply: Reply[None] = Reply()

        def advance() -> None:
            modification.is_fenced = True
            self.deferred_requests.advance(modification)

        self._fencings.fence(modification.message.name, reply)
        _when_fenced(reply, advance, modification.reply.fail)

    def fence_previous_tasks(
        self, name: ConnectorName, then: Callable[[], None], fail: Callable[[Exception], None]
    ) -> None:
        """Fence the tasks of a deleted connector of this name, then call `then` or `fail`. Raises NotLeader."""
        reply: Reply[None] = Reply()
        self._fencings.fence_previous_tasks(name, reply)
        _when_fenced(reply, then, fail)

    def replace(
        self, name: ConnectorName, kind: str, config: Config, pairs: Sequence[Pair]
    ) -> Reply[OffsetsModified]:
        """Request the replacement of all offsets stored under a new connector's name.

        Raises BadRequest for malformed offsets.
        """
        reply: Reply[OffsetsModified] = Reply()
        source = offset_rules.source_changes(pairs) if kind == "source" else {}
        sink = offset_rules.sink_changes(pairs) if kind == "sink" else {}
        self._modify_now(reply, name, kind, config, replace=True, source=source, sink=sink)
        return reply

    def restore(
        self, name: ConnectorName, kind: str, config: Config, modified_offsets: OffsetsModified
    ) -> Reply[OffsetsModified]:
        """Request the restoration of the offsets that a replacement has changed."""
        reply: Reply[OffsetsModified] = Reply()
        source, sink = modified_offsets.source_before, modified_offsets.sink_before
        self._modify_now(reply, name, kind, config, restore=True, source=source, sink=sink)
        return reply

    def _modify_now(
        self, reply: Reply[OffsetsModified], name: ConnectorName, kind: str, config: Config, **options: Any
    ) -> None:
        self._state.actors.offset_service.tell(
            ModifyOffsets(
                token=self._register_reply(reply, lambda message: message),
                name=name,
                kind=kind,
                config=config,
                reset=False,
                reply_to=self._state.actors.herder,
                **options,
            )
        )

    def _register_reply(self, reply: Reply[Any], render: Callable[[Any], object]) -> int:
        token = self._state.writes.next_token()
        self._service_replies[token] = (reply, render)
        return token


def _when_fenced(reply: Reply[None], then: Callable[[], None], fail: Callable[[Exception], None]) -> None:
    def on_fenced() -> None:
        error = reply.future.exception()
        if error is None:
            then()
        else:
            log.error("%s: %s", offset_rules.FENCING_FAILED, error)
            fail(KraalError(offset_rules.FENCING_FAILED))

    reply.future.add_done_callback(lambda _: on_fenced())


def _fail(modification: _Modification, error: Exception) -> None:
    modification.reply.fail(error)


def _get_pairs(message: OffsetsFetched) -> object:
    return message.pairs


def _add_lags(message: OffsetsFetched) -> LaggedOffsets:
    return LaggedOffsets(message.pairs, message.lags)


def _get_text(message: OffsetsModified) -> str:
    return message.text
