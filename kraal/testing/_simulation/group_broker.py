"""Group coordinator of one group of workers, in one thread and virtual time.

The coordinator implements the protocol as observed by members: new members first receive an id. A rebalance waits for
all members, but no longer than the longest rebalance timeout. The elected protocol is supported by all members and
preferred by most members. The leader is retained. Only the leader's SyncGroup completes a generation. A member without
heartbeats for a session timeout is removed unless it waits for a response. A repeated join without changes receives the
current response.
Source: GroupCoordinator's classic groups (Kafka 4.3.0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Address, Tell
from actors.runtime.system import Begin
from kraal.protocol.group import Offer
from kraal.testing._simulation.scheduler import Scheduler

if TYPE_CHECKING:
    from actors.runtime.clock import Timer


class GroupError(Enum):
    """Error codes of the coordinator, with Kafka's names."""

    UNREACHABLE = "no response"
    MEMBER_ID_REQUIRED = "join again with this member id"
    UNKNOWN_MEMBER_ID = "no such member"
    ILLEGAL_GENERATION = "another generation"
    REBALANCE_IN_PROGRESS = "join again"
    INCONSISTENT_GROUP_PROTOCOL = "no protocol that all members offer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Fields of every request."""

    attempt: int
    """Correlation id, returned with the response."""
    reply_to: Address
    sent_s: float
    member_id: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup(Request, Tell):
    """Request to join the group or to start a rebalance."""

    name: str
    """Prefix of the member id."""
    offers: tuple[Offer, ...]
    session_timeout_s: float
    rebalance_timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup(Request, Tell):
    """Request for the assignment; the leader's request contains all assignments."""

    assignments: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(Request, Tell):
    """Request that keeps the session alive; the response shows whether a rebalance is in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup(Request, Tell):
    """Request to leave the group, without a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResponse(Tell):
    """Response to `request`; absent fields have their defaults."""

    request: Request
    error: GroupError | None = None
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    protocol: str = ""
    members: Mapping[str, bytes] = field(default_factory=dict)
    """Metadata of each member, for the leader only."""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class _SessionExpired(Tell):
    member_id: str
    heartbeat_count: int


@dataclass(frozen=True, slots=True)
class _RebalanceTimedOut(Tell):
    rebalance_number: int


@dataclass(slots=True, eq=False)
class _Member:
    join: JoinGroup
    """The last request to join."""
    pending_request: JoinGroup | SyncGroup | None = None
    heartbeat_count: int = 0
    session_timer: Timer | None = None


class FakeGroupBroker:
    """Coordinates one group under a seeded scheduler."""

    def __init__(self, scheduler: Scheduler, name: str = "coordinator") -> None:
        """Create a group without members."""
        self.address = Address(name)
        self.down = False
        """Whether the coordinator is down; set by `stop` and `start`."""
        self.generation = 0
        self.leader = ""
        self.protocol = ""
        self.rebalances: list[frozenset[str]] = []
        """Members of each generation, in order."""
        self._scheduler = scheduler
        self._clock = scheduler.clock
        self._members: dict[str, _Member] = {}
        self._pending_ids: set[str] = set()
        """Ids assigned to members that have not joined with them yet (KIP-394)."""
        self._assignments: dict[str, bytes] = {}
        self._state = "empty"
        self._id_count = 0
        self._rebalance_number = 0
        scheduler.spawn(self.address, lambda: self, self._on_death)

    @property
    def members(self) -> frozenset[str]:
        """The ids of all members."""
        return frozenset(self._members)

    @property
    def offers(self) -> Mapping[str, Sequence[Offer]]:
        """Protocols that each member offered when it last joined, by member id."""
        return {member_id: member.join.offers for member_id, member in self._members.items()}

    @property
    def assignments(self) -> Mapping[str, bytes]:
        """Assignments of the last complete generation, by member id."""
        return self._assignments

    @property
    def stable(self) -> bool:
        """Whether the last generation is complete and no rebalance is in progress."""
        return self._state == "stable"

    def stop(self) -> None:
        """Stop responding; waiting members are notified immediately, as by a broken connection."""
        self.down = True
        for member in self._members.values():
            if member.pending_request is not None:
                self._reject(member.pending_request, GroupError.UNREACHABLE)
                member.pending_request = None

    def start(self) -> None:
        """Resume responding; the group is unchanged, and all sessions are renewed."""
        self.down = False
        for member_id in self._members:
            self._renew_session(member_id)

    def expel(self, member_id: str) -> None:
        """Remove a member, as an operator does."""
        self._remove(member_id)

    def receive(self, message: object) -> None:
        """Handle one message."""
        match message:
            case Begin():
                pass
            case _SessionExpired():
                member = self._members.get(message.member_id)
                if member is not None and member.heartbeat_count == message.heartbeat_count and not self.down:
                    self._expire(message.member_id, member)
            case _RebalanceTimedOut():
                if message.rebalance_number == self._rebalance_number and self._state == "preparing":
                    self._complete()
            case Request() if self.down:
                self._reject(message, GroupError.UNREACHABLE)
            case JoinGroup():
                self._join(message)
            case SyncGroup():
                self._sync(message)
            case Heartbeat():
                self._handle_heartbeat(message)
            case LeaveGroup():
                self._remove(message.member_id)
            case _:
                raise TypeError(message)

    # -- requests ------------------------------------------------------------------------------------------

    def _join(self, request: JoinGroup) -> None:
        member_id = request.member_id
        if not member_id:
            self._id_count += 1
            member_id = f"{request.name}-{self._id_count}"
            self._pending_ids.add(member_id)
            self._respond(request, error=GroupError.MEMBER_ID_REQUIRED, member_id=member_id)
            return
        member = self._members.get(member_id)
        if member is None and member_id not in self._pending_ids:
            self._reject(request, GroupError.UNKNOWN_MEMBER_ID)
            return
        if member is None or _protocol_names(member.join.offers) != _protocol_names(request.offers):
            other_offers = [m.join.offers for i, m in self._members.items() if i != member_id]
            if not _common_protocols([*other_offers, request.offers]):
                self._reject(request, GroupError.INCONSISTENT_GROUP_PROTOCOL)
                return
        has_changed = member is None or member.join.offers != request.offers or member_id == self.leader
        if member is None:
            self._pending_ids.discard(member_id)
            member = self._members[member_id] = _Member(request)
        member.join = request
        if not has_changed and self._state in ("completing", "stable"):
            self._renew_session(member_id)
            self._on_joined(member_id, request)
            return
        member.pending_request = request
        self._renew_session(member_id)
        self._prepare()

    def _sync(self, request: SyncGroup) -> None:
        member = self._check(request)
        if member is None:
            return
        if self._state == "preparing":
            self._reject(request, GroupError.REBALANCE_IN_PROGRESS)
        elif self._state == "stable":
            self._renew_session(request.member_id)
            self._respond(request, assignment=self._assignments.get(request.member_id, b""))
        else:
            member.pending_request = request
            if request.member_id == self.leader:
                self._assignments = dict(request.assignments)
                self._state = "stable"
                self._release_syncs()

    def _handle_heartbeat(self, request: Heartbeat) -> None:
        if self._check(request) is None:
            return
        self._renew_session(request.member_id)
        is_preparing = self._state == "preparing"
        self._respond(request, error=GroupError.REBALANCE_IN_PROGRESS if is_preparing else None)

    def _check(self, request: Request) -> _Member | None:
        member = self._members.get(request.member_id)
        if member is None:
            self._reject(request, GroupError.UNKNOWN_MEMBER_ID)
        elif request.generation != self.generation:
            self._reject(request, GroupError.ILLEGAL_GENERATION)
            return None
        return member

    # -- rebalances -----------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Start a rebalance unless one is in progress; complete it when all members have joined."""
        if self._state != "preparing":
            for member in self._members.values():
                if isinstance(member.pending_request, SyncGroup):
                    self._reject(member.pending_request, GroupError.REBALANCE_IN_PROGRESS)
                    member.pending_request = None
            self._state = "preparing"
            self._rebalance_number += 1
            timeout_s = max((m.join.rebalance_timeout_s for m in self._members.values()), default=0.0)
            self._clock.after(timeout_s, self.address, _RebalanceTimedOut(self._rebalance_number))
        if all(isinstance(member.pending_request, JoinGroup) for member in self._members.values()):
            self._complete()

    def _complete(self) -> None:
        for member_id, member in list(self._members.items()):
            if not isinstance(member.pending_request, JoinGroup):
                self._remove_member(member_id)
        self.generation += 1
        self._assignments = {}
        if not self._members:
            self._state, self.leader = "empty", ""
            return
        self._state = "completing"
        if self.leader not in self._members:
            self.leader = next(iter(self._members))
        self.protocol = _elect([member.join.offers for member in self._members.values()])
        self.rebalances.append(frozenset(self._members))
        for member_id, member in self._members.items():
            request, member.pending_request = member.pending_request, None
            if isinstance(request, JoinGroup):
                self._on_joined(member_id, request)
            self._renew_session(member_id)

    def _on_joined(self, member_id: str, request: JoinGroup) -> None:
        self._respond(
            request,
            member_id=member_id,
            generation=self.generation,
            leader=self.leader,
            protocol=self.protocol,
            members={
                other_id: next(o.metadata for o in member.join.offers if o.name == self.protocol)
                for other_id, member in self._members.items()
            }
            if member_id == self.leader
            else {},
        )

    def _release_syncs(self) -> None:
        for member_id, member in self._members.items():
            request, member.pending_request = member.pending_request, None
            if isinstance(request, SyncGroup):
                self._respond(request, assignment=self._assignments.get(member_id, b""))
            self._renew_session(member_id)

    # -- members -------------------------------------------------------------------------------------------

    def _renew_session(self, member_id: str) -> None:
        """Renew a member's session."""
        member = self._members[member_id]
        member.heartbeat_count += 1
        if member.session_timer is not None:
            member.session_timer.cancel()
        message = _SessionExpired(member_id, member.heartbeat_count)
        member.session_timer = self._clock.after(member.join.session_timeout_s, self.address, message)

    def _expire(self, member_id: str, member: _Member) -> None:
        if member.pending_request is None:
            self._remove(member_id)
        else:
            self._renew_session(member_id)

    def _remove(self, member_id: str) -> None:
        member = self._members.get(member_id)
        if member is None:
            return
        if member.pending_request is not None:
            self._reject(member.pending_request, GroupError.UNKNOWN_MEMBER_ID)
        self._remove_member(member_id)
        self._prepare()

    def _remove_member(self, member_id: str) -> None:
        member = self._members.pop(member_id)
        if member.session_timer is not None:
            member.session_timer.cancel()

    # -- responses -----------------------------------------------------------------------------------------

    def _reject(self, request: Request, error: GroupError) -> None:
        request.reply_to.tell(GroupResponse(request=request, error=error))

    def _respond(
        self,
        request: Request,
        *,
        error: GroupError | None = None,
        member_id: str = "",
        generation: int = -1,
        leader: str = "",
        protocol: str = "",
        members: Mapping[str, bytes] | None = None,
        assignment: bytes = b"",
    ) -> None:
        request.reply_to.tell(
            GroupResponse(
                request=request,
                error=error,
                member_id=member_id,
                generation=generation,
                leader=leader,
                protocol=protocol,
                members=members or {},
                assignment=assignment,
            )
        )

    def _on_death(self, error: BaseException) -> None:
        raise AssertionError("the fake coordinator has an error") from error


def _protocol_names(offers: Sequence[Offer]) -> set[str]:
    return {str(offer.name) for offer in offers}


def _common_protocols(all_offers: Sequence[Sequence[Offer]]) -> set[str]:
    return set.intersection(*map(_protocol_names, all_offers))


def _elect(all_offers: Sequence[Sequence[Offer]]) -> str:
    """Elect the protocol; each member votes for the first of its protocols that all members support."""
    common_protocols = _common_protocols(all_offers)
    votes = Counter(next(str(o.name) for o in offers if o.name in common_protocols) for offers in all_offers)
    return votes.most_common(1)[0][0]
