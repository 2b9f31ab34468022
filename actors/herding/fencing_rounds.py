"""Fencing rounds, which workers with exactly-once support request from the leader before a source's tasks start.

Part of the herder; runs on its thread only. Requests that arrive during a connector's round share the round's result.
A creation with initial offsets fences the tasks of a deleted connector of the same name without a round.
Source: DistributedHerder.fenceZombieSourceTasks, ZombieFencing (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from actors.messages.fencer import FenceProducers
from actors.runtime.mailbox import Reply
from kraal.cluster.decisions.commands import check_fence
from kraal.cluster.decisions.fencing import (
    NEWER_CONFIGS,
    FencingPlan,
    is_outdated,
    plan_fencing,
    previous_producers,
)
from kraal.core.errors import Conflict, KraalError, StoreError, Unavailable
from kraal.protocol.records import TaskCommitRecord, encode

if TYPE_CHECKING:
    from actors.herding.rebalances import Rebalances
    from actors.herding.state import HerderState
    from actors.messages.fencer import ProducersFenced
    from kraal.core.ids import ConnectorName

log = logging.getLogger(__name__)

_FENCER_DIED = "Failed to perform zombie fencing: the fencer died"


@dataclass(slots=True)
class _Round:
    plan: FencingPlan
    token: int
    replies: list[Reply[Any]] = field(default_factory=list)


class FencingRounds:
    """Runs fencing rounds: fence the producers, check that the plan is still current, write the record."""

    def __init__(self, state: HerderState, rebalances: Rebalances) -> None:
        self._state = state
        self._rebalances = rebalances
        self._rounds: dict[ConnectorName, _Round] = {}
        self._previous_task_replies: dict[int, Reply[None]] = {}

    def fence(self, name: ConnectorName, reply: Reply[Any]) -> None:
        """Complete `reply` once the connector's older tasks are fenced. Raises NotLeader, NotFound, BadRequest."""
        state = self._state
        self._rebalances.check_leader()
        check_fence(state.snapshot.config, name, state.snapshot.types.get(name, "unknown"))
        current = self._rounds.get(name)
        if current is not None:
            current.replies.append(reply)
            return
        plan = plan_fencing(state.snapshot.config, name, state.settings.group_id)
        if plan.record is None:
            log.debug(
                "Skipping zombie fencing round for connector %s"
                " as all old task generations have already been fenced out",
                name,
            )
            reply.set(None)
            return
        log.info("Fencing %d producers of older tasks of connector %s", len(plan.transactional_ids), name)
        new_round = self._rounds[name] = _Round(plan, state.writes.next_token(), [reply])
        if plan.transactional_ids:
            self._request_fencing(new_round.token, plan.transactional_ids)
        else:
            self._write(new_round)

    def fence_previous_tasks(self, name: ConnectorName, reply: Reply[None]) -> None:
        """Complete `reply` once tasks of a deleted connector of this name are fenced; write no record.

        The caller must then check that no connector of this name exists. Raises NotLeader.
        """
        self._rebalances.check_leader()
        producers = previous_producers(self._state.snapshot.config, name, self._state.settings.group_id)
        if not producers:
            reply.set(None)
            return
        token = self._state.writes.next_token()
        self._previous_task_replies[token] = reply
        self._request_fencing(token, producers)

    def _request_fencing(self, token: int, transactional_ids: tuple[str, ...]) -> None:
        actors = self._state.actors
        actors.fencer.tell(
            FenceProducers(token=token, transactional_ids=transactional_ids, reply_to=actors.herder)
        )

    def on_fenced(self, message: ProducersFenced) -> None:
        """Handle the fencer's result."""
        reply = self._previous_task_replies.pop(message.token, None)
        if reply is not None:
            if message.error is None:
                reply.set(None)
            else:
                reply.fail(message.error)
            return
        for current in list(self._rounds.values()):
            if current.token != message.token:
                continue
            if message.error is not None:
                self._complete_round(
                    current, KraalError(f"Failed to perform zombie fencing: {message.error}")
                )
            else:
                self._write(current)

    def on_fencer_lost(self) -> None:
        """Fail all pending requests after the fencer died, because the fencer may not have started them."""
        for current in list(self._rounds.values()):
            self._complete_round(current, Unavailable(_FENCER_DIED))
        replies, self._previous_task_replies = self._previous_task_replies, {}
        for reply in replies.values():
            reply.fail(Unavailable(_FENCER_DIED))

    def _write(self, current: _Round) -> None:
        state, record = self._state, current.plan.record
        if record is None:
            self._complete_round(current, None)
            return
        # Newer task configs that have not been read yet would precede the record, which would mark them as fenced.
        commit_key, _ = encode(TaskCommitRecord(current.plan.name, 0))
        if is_outdated(current.plan, state.snapshot.config) or state.writes.config.is_pending(commit_key):
            self._complete_round(current, Conflict(NEWER_CONFIGS))
            return
        reply: Reply[None] = Reply()
        state.writes.write_config([record], reply, lambda: reply.set(None))
        reply.future.add_done_callback(lambda f: self._on_written(current, f.exception()))

    def _on_written(self, current: _Round, error: BaseException | None) -> None:
        if error is None:
            self._complete_round(current, None)
        elif isinstance(error, StoreError):  # the record may have been written; the task retries
            self._complete_round(current, Unavailable(f"Failed to perform zombie fencing: {error}"))
        else:
            self._complete_round(current, error if isinstance(error, KraalError) else KraalError(str(error)))

    def _complete_round(self, current: _Round, error: KraalError | None) -> None:
        self._rounds.pop(current.plan.name, None)
        for reply in current.replies:
            if error is None:
                reply.set(None)
            else:
                reply.fail(error)
