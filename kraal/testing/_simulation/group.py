"""A worker's membership in a fake group, which runs under a seeded scheduler in virtual time.

    broker = FakeGroupBroker(scheduler)
    group = FakeGroup(broker, "w1", GroupOptions(group_id="cluster"))

The fake group behaves like `kraal.kafka.group.KafkaGroup` and supports fault injection: `freeze` and `thaw` (SIGSTOP),
`kill` (SIGKILL), `broker.stop()` and `start()` (an outage), `broker.expel(…)`.
"""

from __future__ import annotations

import math
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.runtime.mailbox import Address, Tell
from actors.runtime.system import Begin
from kraal.stores.group_api import GroupHooks, GroupOptions
from kraal.testing._simulation.group_broker import (
    FakeGroupBroker,
    GroupError,
    GroupResponse,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Request,
    SyncGroup,
)
from kraal.testing._simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FakeGroup", "FakeGroupBroker", "GroupOptions"]

HEARTBEAT_INTERVAL_S = 0.5
RETRY_DELAY_S = 0.1


@dataclass(frozen=True, slots=True)
class _Command(Tell):
    action: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _JoinPrepared(Tell):
    attempt: int
    failed: bool


@dataclass(frozen=True, slots=True)
class _HeartbeatDue(Tell):
    pass


@dataclass(frozen=True, slots=True)
class _Retry(Tell):
    attempt: int
    prepare: bool


class FakeGroup:
    """One worker's membership; see `kraal.stores.group_api.Group`."""

    def __init__(
        self, broker: FakeGroupBroker, name: str, options: GroupOptions, scheduler: Scheduler
    ) -> None:
        """Create a member that sends nothing before `start`; `name` is the prefix of its member ids."""
        self.member_id = ""
        self.loss_count = 0
        """Number of times that the coordinator was lost."""
        self._broker = broker
        self._name = name
        self._options = options
        self._clock = scheduler.clock
        self.address = Address(f"group of {name}")
        """Address for the broker's responses; the hooks are called while messages to this address are handled."""
        self._hooks: GroupHooks | None = None
        self._generation = self._last_completed_generation = -1
        self._protocol = ""
        self._attempt = 0
        """Number of the current join; responses to older joins are dropped."""
        self._is_joining = self._has_left = False
        self._is_dead = self._is_expelled = self._is_prepared_expelled = False
        self._confirmed_s = -math.inf
        self._is_member = False
        self._unknown_since_s: float | None = None
        self._is_lost = False
        self._queued_messages: deque[object] | None = None  # None unless the member is frozen
        scheduler.spawn(self.address, lambda: self, self._on_death)

    # -- Group ---------------------------------------------------------------------------------------------

    def start(self, hooks: GroupHooks) -> None:
        """Join the group."""
        self._hooks = hooks
        self.address.tell(_Command("join"))
        self.address.tell(_HeartbeatDue())

    def rejoin(self, reason: str) -> None:
        """Request a rebalance."""
        self.address.tell(_Command("rejoin", reason))

    def leave(self, reason: str) -> None:
        """Leave the group until `resume`."""
        self.address.tell(_Command("leave", reason))

    def resume(self) -> None:
        """Rejoin the group after `leave`."""
        self.address.tell(_Command("resume"))

    def close(self, timeout_s: float) -> None:  # noqa: ARG002 - nothing to wait for
        """Leave the group permanently."""
        self.address.tell(_Command("close"))

    def heartbeat_age_s(self) -> float:
        """Return the virtual seconds since the last confirmation of the membership; infinity without a membership."""
        return self._clock.now() - self._confirmed_s if self._is_member else math.inf

    # -- faults ---------------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Suspend the member; its messages are queued."""
        self._queued_messages = deque()

    def thaw(self) -> None:
        """Resume after `freeze`."""
        queued_messages, self._queued_messages = self._queued_messages or deque(), None
        for message in queued_messages:
            self.receive(message)

    def kill(self) -> None:
        """Kill the member without leaving the group."""
        self._is_dead = True

    # -- simulated behaviour --------------------------------------------------------------------------------

    def receive(self, message: object) -> None:
        """Handle one message."""
        if self._is_dead:
            return
        if self._queued_messages is not None:
            self._queued_messages.append(message)
            return
        match message:
            case Begin():
                pass
            case _Command():
                self._execute(message.action)
            case _JoinPrepared():
                self._on_prepared(message)
            case _Retry():
                self._retry(message)
            case _HeartbeatDue():
                self._send_heartbeat()
                interval_s = min(HEARTBEAT_INTERVAL_S, self._options.heartbeat_interval_s)
                self._clock.after(interval_s, self.address, message)
            case GroupResponse():
                self._on_response(message)
            case _:
                raise TypeError(message)

    def _execute(self, action: str) -> None:
        if action in ("leave", "close"):
            self._leave()
            self._is_dead = action == "close"
        else:
            self._has_left = self._has_left and action == "rejoin"
            self._begin_join()  # no effect during a join, as in Kafka's clients

    def _leave(self) -> None:
        self._has_left = True
        self._is_joining = False
        self._attempt += 1
        if self.member_id:
            self._send(LeaveGroup(**self._request()))
        self._reset(expelled=False)

    # -- joining -------------------------------------------------------------------------------------------

    def _begin_join(self) -> None:
        if self._has_left or self._is_joining:
            return
        self._is_joining = True
        self._prepare()

    def _prepare(self) -> None:
        self._attempt += 1
        attempt = self._attempt
        self._is_prepared_expelled = self._is_expelled
        future = self._require_hooks().prepare(
            expelled=self._is_expelled, away_s=self._clock.now() - self._confirmed_s
        )

        def on_done(future: Future[None]) -> None:
            has_failed = future.cancelled() or future.exception() is not None
            self.address.tell(_JoinPrepared(attempt, has_failed))

        future.add_done_callback(on_done)

    def _on_prepared(self, message: _JoinPrepared) -> None:
        if message.attempt != self._attempt or not self._is_joining:
            return
        if message.failed:
            self._clock.after(RETRY_DELAY_S, self.address, _Retry(self._attempt, prepare=True))
        elif self._is_expelled != self._is_prepared_expelled:
            self._prepare()
        else:
            self._send_join()

    def _send_join(self) -> None:
        self._attempt += 1
        self._send(
            JoinGroup(
                **self._request(),
                name=self._name,
                offers=tuple(self._require_hooks().offers()),
                session_timeout_s=self._options.session_timeout_s,
                rebalance_timeout_s=self._options.rebalance_timeout_s,
            )
        )

    def _retry(self, message: _Retry) -> None:
        if message.attempt != self._attempt or not self._is_joining:
            return
        if message.prepare:
            self._prepare()
        else:
            self._send_join()

    def _on_response(self, response: GroupResponse) -> None:
        request = response.request
        if response.error is GroupError.UNREACHABLE:
            self._on_unreachable(request)
            return
        self._on_reached()
        if isinstance(request, Heartbeat):
            self._handle_heartbeat(request, response)
        elif request.attempt == self._attempt and self._is_joining:
            if isinstance(request, JoinGroup):
                self._on_joined(response)
            elif isinstance(request, SyncGroup):
                self._on_synced(request, response)

    def _on_joined(self, response: GroupResponse) -> None:
        match response.error:
            case None:
                self._generation, self._protocol = response.generation, response.protocol
                self.member_id = response.member_id
                self._send(SyncGroup(**self._request(), assignments=self._plan(response)))
            case GroupError.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
                self._send_join()
            case GroupError.UNKNOWN_MEMBER_ID:
                self._reset(expelled=True)
                self._prepare()
            case _:
                self._require_hooks().on_lost(f"the group rejected this worker: {response.error}")
                self._attempt += 1
                self._clock.after(5.0, self.address, _Retry(self._attempt, prepare=True))

    def _plan(self, response: GroupResponse) -> Mapping[str, bytes]:
        if response.leader != response.member_id or not response.members:
            return {}
        return self._require_hooks().plan(
            protocol=response.protocol,
            leader=response.leader,
            members=response.members,
            generation=response.generation,
            last_completed_generation=self._last_completed_generation,
        )

    def _on_synced(self, request: SyncGroup, response: GroupResponse) -> None:
        if response.error is None:
            self._is_joining = self._is_expelled = False
            self._last_completed_generation = self._generation
            self._confirm(request)
            self._require_hooks().on_joined(
                protocol=self._protocol,
                generation=self._generation,
                member_id=self.member_id,
                assignment=response.assignment,
            )
        elif response.error is GroupError.UNKNOWN_MEMBER_ID:
            self._reset(expelled=True)
            self._prepare()
        else:
            self._send_join()

    # -- heartbeats -----------------------------------------------------------------------------------------

    def _send_heartbeat(self) -> None:
        if self._unknown_since_s is not None:
            self._search_coordinator(self._unknown_since_s)
        if self.member_id and self._generation >= 0:
            self._send(Heartbeat(**self._request()))

    def _handle_heartbeat(self, request: Heartbeat, response: GroupResponse) -> None:
        if request.member_id != self.member_id or request.generation != self._generation:
            return
        if response.error in (None, GroupError.REBALANCE_IN_PROGRESS):
            self._confirm(request)
        if response.error is GroupError.UNKNOWN_MEMBER_ID:
            self._reset(expelled=True)
        if response.error is not None:
            self._begin_join()

    def _on_unreachable(self, request: Request) -> None:
        """Handle a timeout; resend a pending join after a delay."""
        if self._unknown_since_s is None:
            self._unknown_since_s = self._clock.now()
        if (
            isinstance(request, JoinGroup | SyncGroup)
            and request.attempt == self._attempt
            and self._is_joining
        ):
            self._attempt += 1
            self._clock.after(RETRY_DELAY_S, self.address, _Retry(self._attempt, prepare=False))

    def _search_coordinator(self, since_s: float) -> None:
        if not self._is_lost and self._clock.now() - since_s > self._options.heartbeat_interval_s:
            self._is_lost = True
            self.loss_count += 1
            self._require_hooks().on_lost("the group's coordinator is unknown")

    def _on_reached(self) -> None:
        self._unknown_since_s = None
        if self._is_lost:
            self._is_lost = False
            self._is_joining = False
            self._begin_join()

    def _confirm(self, request: Request) -> None:
        self._is_member = True
        self._confirmed_s = max(self._confirmed_s, request.sent_s)

    def _reset(self, *, expelled: bool) -> None:
        self._is_expelled = self._is_expelled or (expelled and bool(self.member_id))
        self._is_member = False
        self.member_id, self._generation = "", -1

    # -- sending -------------------------------------------------------------------------------------------

    def _request(self) -> dict[str, Any]:
        return {
            "attempt": self._attempt,
            "reply_to": self.address,
            "sent_s": self._clock.now(),
            "member_id": self.member_id,
            "generation": self._generation,
        }

    def _send(self, request: JoinGroup | SyncGroup | Heartbeat | LeaveGroup) -> None:
        self._broker.address.tell(request)

    def _require_hooks(self) -> GroupHooks:
        assert self._hooks is not None  # noqa: S101 - set by `start`
        return self._hooks

    def _on_death(self, error: BaseException) -> None:
        raise AssertionError(f"the fake group of {self._name} has an error") from error
