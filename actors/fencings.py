"""Fencing rounds, which workers with exactly-once support ask the leader for before a source's tasks start.

Part of the herder; its thread only. Whoever asks while a round of the connector is under way shares it.
Source: DistributedHerder.fenceZombieSourceTasks, ZombieFencing (Kafka 4.3.0); contract 6.7.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from actors.mailbox import Reply
from actors.messages.fencer import FenceProducers
from kraal.cluster.commands import check_fence
from kraal.cluster.fencing import NEWER_CONFIGS, FencingPlan, is_outdated, plan_fencing
from kraal.errors import Conflict, KraalError

if TYPE_CHECKING:
    from actors.herd import Herd
    from actors.messages.fencer import ProducersFenced
    from actors.rebalances import Rebalances
    from kraal.ids import ConnectorName


@dataclass(slots=True)
class _Round:
    plan: FencingPlan
    token: int
    waiting: list[Reply[Any]] = field(default_factory=list)


class Fencings:
    """Carries rounds out: fence, look whether it still holds, write it down."""

    def __init__(self, herd: Herd, rebalances: Rebalances) -> None:
        self._herd = herd
        self._rebalances = rebalances
        self._rounds: dict[ConnectorName, _Round] = {}

    def fence(self, name: ConnectorName, reply: Reply[Any]) -> None:
        """Answer when the older tasks of a connector cannot write any more. Raises NotLeader, NotFound, BadRequest."""
        herd = self._herd
        self._rebalances.lead()
        check_fence(herd.snapshot.config, name, herd.snapshot.types.get(name, "unknown"))
        under_way = self._rounds.get(name)
        if under_way is not None:
            under_way.waiting.append(reply)
            return
        plan = plan_fencing(herd.snapshot.config, name, herd.settings.group_id)
        if plan.record is None:
            reply.set(None)
            return
        begun = self._rounds[name] = _Round(plan, herd.waits.token(), [reply])
        if plan.transactional_ids:
            herd.links.fencer.tell(
                FenceProducers(
                    token=begun.token,
                    transactional_ids=plan.transactional_ids,
                    reply_to=herd.links.herder,
                )
            )
        else:
            self._write(begun)

    def fenced(self, message: ProducersFenced) -> None:
        """The producers are fenced, or could not be."""
        for under_way in list(self._rounds.values()):
            if under_way.token != message.token:
                continue
            if message.error is not None:
                self._end(under_way, KraalError(f"Failed to perform zombie fencing: {message.error}"))
            elif is_outdated(under_way.plan, self._herd.snapshot.config):
                self._end(under_way, Conflict(NEWER_CONFIGS))
            else:
                self._write(under_way)

    def lose(self) -> None:
        """The fencer died: rounds that it had not begun will not end."""
        for under_way in list(self._rounds.values()):
            self._end(under_way, KraalError("Failed to perform zombie fencing: the fencer died"))

    def _write(self, under_way: _Round) -> None:
        record = under_way.plan.record
        if record is None:
            self._end(under_way, None)
            return
        reply: Reply[None] = Reply()
        self._herd.write_config([record], reply, lambda: reply.set(None))
        reply.future.add_done_callback(lambda f: self._written(under_way, f.exception()))

    def _written(self, under_way: _Round, error: BaseException | None) -> None:
        if error is None:
            self._end(under_way, None)
        else:
            self._end(under_way, error if isinstance(error, KraalError) else KraalError(str(error)))

    def _end(self, under_way: _Round, error: KraalError | None) -> None:
        self._rounds.pop(under_way.plan.name, None)
        for reply in under_way.waiting:
            if error is None:
                reply.set(None)
            else:
                reply.fail(error)
