"""Rebalance flow of one cluster member, as in DistributedHerder.tick and WorkerCoordinator. Pure.

Four rules delay the steps of this module; rules 1, 2 and 4 keep an instance from running twice.

1. A join waits until work has stopped (`AllowJoin`): all work under the eager protocol, the work revoked in the last
   round under the cooperative protocols. Work is therefore never assigned while its previous owner runs it.
2. Work starts (`Deliver`) only when this worker has read the config exactly up to the offset of the assignment. A
   worker that has read less keeps reading for a while; a worker that has read more rejoins.
3. A worker that cannot read the config leaves the group, so as not to delay the other members, and returns once it has
   caught up.
4. A worker that was out of the group for so long that its work may have been reassigned stops the work and rejoins
   afterwards. Otherwise its lease would be valid before the assignment that revokes the work arrives. The worker still
   reports the work if no other member can have received it yet; the leader then keeps the assignment.

Java spreads the same flow over WorkerCoordinator and DistributedHerder, on one blocking thread; rule 4 is specific to
Kraal. Source: WorkerCoordinator, DistributedHerder.handleRebalanceCompleted, backoff (Kafka 4.4.0).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never

from kraal.cluster.assignment.leader import apply_assignment, to_assignment
from kraal.cluster.membership.member_state import (
    MAX_BACKOFFS,
    REJOIN_DELAY_S,
    AllowJoin,
    AssignmentReceived,
    ConfigRead,
    CoordinatorLost,
    Decision,
    Deliver,
    Event,
    HerderAlive,
    HerderLive,
    Join,
    Leave,
    MemberSettings,
    MembershipRestarted,
    MemberState,
    NotifyLost,
    PingHerder,
    PrepareJoin,
    Rejoin,
    RevocationDone,
    Revoke,
    Tick,
    WorkChanged,
)
from kraal.cluster.state.wanted_work import Assignment

SLOW_READ = "taking too long to read the log"
DELAY_OVER = "the rebalance delay has expired"
HERDER_HUNG = "worker poll timeout has expired."


def step(
    state: MemberState, event: Event, *, now_s: float, offset: int, settings: MemberSettings
) -> tuple[MemberState, tuple[Decision, ...]]:
    """Return the next state and the decisions, in order. `offset` is the current config offset."""
    step_ = _Step(state, now_s, offset, settings)
    step_.handle(event)
    return step_.state, tuple(step_.decisions)


class _Step:
    """One step of the flow."""

    def __init__(self, state: MemberState, now_s: float, offset: int, settings: MemberSettings) -> None:
        self.state = state
        self.decisions: list[Decision] = []
        self._now_s = now_s
        self._offset = offset
        self._settings = settings

    def handle(self, event: Event) -> None:
        match event:
            case HerderLive():
                self._on_herder_live()
            case WorkChanged():
                self._rejoin("connectors or tasks have changed")
            case ConfigRead():
                pass
            case RevocationDone():
                if event.number == self.state.pending_revocation:
                    self._set(pending_revocation=None)
            case HerderAlive():
                self._set(unanswered_since_s=None)
                if self.state.is_herder_hung:
                    self._set(is_herder_hung=False)
                    self._return_to_group()
            case PrepareJoin():
                self._prepare(event)
            case AssignmentReceived():
                self._on_assignment(event)
            case CoordinatorLost():
                self._on_coordinator_lost(event.reason)
            case MembershipRestarted():
                self._on_membership_restarted()
            case Tick():
                self._watch_herder()
            case _:
                assert_never(event)
        self._take_unblocked_steps()

    def _set(self, **parts: Any) -> None:
        self.state = replace(self.state, **parts)

    # -- events from the group -----------------------------------------------------------------------------

    def _prepare(self, event: PrepareJoin) -> None:
        """Apply rules 1 and 4 before a join. The next assignment supersedes an undelivered one."""
        state, settings = self.state, self._settings
        is_eager = state.protocol is not None and not state.protocol.is_cooperative
        was_away = event.expelled or event.away_s >= settings.session_timeout_s
        self._set(
            is_joining=True,
            is_join_pending=True,
            plan=None,
            rejoin_at_s=None,
            # Keep catching up: a leader that joins before it can assign work would only fail all members again.
            is_unresolved=state.is_unresolved and state.catch_up_by_s is not None,
        )
        if was_away and event.away_s >= settings.max_delay_s:
            self._set(assignment=None)
        if is_eager or was_away:
            self._revoke(Assignment())

    def _on_assignment(self, event: AssignmentReceived) -> None:
        """Record the new assignment. Revoked work stops first."""
        new_assignment = apply_assignment(self.state.assignment, event.assignment)
        delay_s = new_assignment.delay_ms / 1000
        is_staying_out = self.state.is_staying_out  # the assignment arrived while this worker was leaving
        self._set(
            assignment=new_assignment,
            protocol=event.protocol,
            generation=event.generation,
            is_repeated=event.generation == self.state.generation,
            member_id=event.member_id,
            plan=event.plan,
            needed_offset=max(self.state.needed_offset, new_assignment.config_offset)
            if is_staying_out
            else new_assignment.config_offset,
            is_unresolved=not is_staying_out,
            is_joining=False,
            is_join_pending=False,
            catch_up_by_s=self.state.catch_up_by_s if is_staying_out else None,
            rejoin_at_s=self._now_s + delay_s if delay_s > 0 else None,
        )
        if new_assignment.revoked:
            work, running = to_assignment(new_assignment), self.state.running
            self._revoke(
                Assignment(
                    connectors=running.connectors & work.connectors,
                    tasks=running.tasks & work.tasks,
                )
            )

    def _on_coordinator_lost(self, reason: str) -> None:
        """Drop the assignment, because the group may have expelled this worker unnoticed."""
        self._set(assignment=None, plan=None, is_unresolved=False, rejoin_at_s=None)
        if not self.state.is_config_unreadable:
            self._set(catch_up_by_s=None)
        self._revoke(Assignment())
        self.decisions.append(NotifyLost(reason))

    # -- events from the herder ----------------------------------------------------------------------------

    def _on_herder_live(self) -> None:
        state = self.state
        self._set(
            unanswered_since_s=None, last_check_s=state.last_check_s if state.has_begun else self._now_s
        )
        if not state.has_begun:
            self._set(has_begun=True)
            self.decisions.append(Join())
        elif state.pending_revocation is not None:
            self._revoke(state.running, repeat=True)
        elif state.assignment is None or state.is_unresolved or state.is_joining or state.is_staying_out:
            pass  # the herder receives the next assignment
        elif state.assignment.failed or state.assignment.config_offset != self._offset:
            # Later changes may need a rebalance that the previous herder did not request.
            self._rejoin("the herder was restarted")
        else:
            self.decisions.append(Deliver())
            self._set(running=to_assignment(state.assignment))

    def _on_membership_restarted(self) -> None:
        if not self.state.has_begun:
            return
        self._set(is_joining=False, is_join_pending=False, is_unresolved=False, unanswered_since_s=None)
        if self.state.pending_revocation is not None:
            self._revoke(self.state.running, repeat=True)
        if self.state.is_herder_hung or self.state.is_config_unreadable:
            self.decisions.append(Leave(HERDER_HUNG if self.state.is_herder_hung else SLOW_READ))
        else:
            self._set(catch_up_by_s=None)
            self.decisions += [Join(), Rejoin("the membership actor was restarted")]

    def _watch_herder(self) -> None:
        """Leave the group if the herder hangs, so that this worker's work is reassigned."""
        state, settings, now_s = self.state, self._settings, self._now_s
        if state.last_check_s is None or now_s < state.last_check_s + settings.tick_s:
            return
        # A missed check means that the whole process was frozen, not just the herder.
        was_frozen = now_s > state.last_check_s + 2 * settings.tick_s
        self._set(last_check_s=now_s)
        if state.unanswered_since_s is None or was_frozen:
            self._set(unanswered_since_s=now_s)
        elif now_s > state.unanswered_since_s + settings.rebalance_timeout_s and not state.is_herder_hung:
            self._set(is_herder_hung=True)
            self._leave(HERDER_HUNG)
        self.decisions.append(PingHerder())

    # -- invariants after each event -----------------------------------------------------------------------

    def _take_unblocked_steps(self) -> None:
        """Take the steps that are no longer blocked."""
        if self.state.is_config_unreadable:
            self._resume_reading()
        if (
            self.state.pending_revocation is None
            and self.state.is_unresolved
            and not self.state.is_staying_out
        ):
            self._resolve()
        state = self.state
        if state.is_join_pending and state.pending_revocation is None and not state.is_unresolved:
            self._set(is_join_pending=False)
            self.decisions.append(AllowJoin())
        if state.rejoin_at_s is not None and state.rejoin_at_s <= self._now_s and not state.is_unresolved:
            self._set(rejoin_at_s=None)
            self._rejoin(DELAY_OVER)

    def _resolve(self) -> None:
        """Deliver the assignment or request another (rule 2)."""
        state = self.state
        assignment = state.assignment
        if self._offset < state.needed_offset:
            self._catch_up()
            return
        self._set(is_unresolved=False, catch_up_by_s=None, retries=MAX_BACKOFFS)
        if state.is_joining or assignment is None:
            return
        if assignment.failed:
            self._request_another_round("the assignment failed")
        elif state.rejoin_at_s is not None and state.rejoin_at_s <= self._now_s:
            self._set(rejoin_at_s=None)
            self._rejoin(DELAY_OVER)
        elif self._offset != assignment.config_offset:
            self._request_another_round(
                f"config read up to offset {self._offset}, "
                f"but the assignment requires offset {assignment.config_offset}"
            )
        else:
            self.decisions.append(Deliver())
            self._set(running=to_assignment(assignment))
            if assignment.revoked:
                self._set(assignment=replace(assignment, revoked=()))
                self._request_another_round("all revoked work has stopped")

    def _catch_up(self) -> None:
        state = self.state
        if state.catch_up_by_s is None:
            self._set(catch_up_by_s=self._now_s + self._settings.sync_timeout_s)
        elif state.catch_up_by_s <= self._now_s:
            self._set(is_config_unreadable=True)
            self._leave(SLOW_READ)
            self._back_off()

    # -- catching up outside the group (rule 3) -------------------------------------------------------------

    def _resume_reading(self) -> None:
        """Return to the group once the config is read up to the required offset."""
        state = self.state
        if self._offset >= state.needed_offset:
            self._set(
                is_config_unreadable=False, pause_until_s=None, catch_up_by_s=None, retries=MAX_BACKOFFS
            )
            self._return_to_group()
        elif state.pause_until_s is not None and state.pause_until_s <= self._now_s:
            self._set(pause_until_s=None, catch_up_by_s=self._now_s + self._settings.sync_timeout_s)
        elif state.catch_up_by_s is not None and state.catch_up_by_s <= self._now_s:
            self._back_off()

    def _back_off(self) -> None:
        """Back off before the next attempt. A cooperative worker waits longer each time, then revokes its work."""
        state, settings = self.state, self._settings
        if state.protocol is None or not state.protocol.is_cooperative:
            self._set(catch_up_by_s=None, pause_until_s=self._now_s + settings.unsync_backoff_s)
        elif state.retries > 0:
            pause_s = settings.max_delay_s / 10 / state.retries
            self._set(catch_up_by_s=None, pause_until_s=self._now_s + pause_s, retries=state.retries - 1)
        else:
            self._set(
                retries=MAX_BACKOFFS, assignment=None, catch_up_by_s=self._now_s + settings.sync_timeout_s
            )
            self._revoke(Assignment())

    # -- decisions -----------------------------------------------------------------------------------------

    def _revoke(self, keep: Assignment, *, repeat: bool = False) -> None:
        if keep == self.state.running and not repeat:
            return
        number = self.state.revocations + 1
        self._set(revocations=number, pending_revocation=number, running=keep)
        self.decisions.append(Revoke(number, keep))

    def _rejoin(self, reason: str) -> None:
        if self.state.has_begun and not self.state.is_staying_out:
            self.decisions.append(Rejoin(reason))

    def _request_another_round(self, reason: str) -> None:
        """Rejoin, after a delay if the broker started no rebalance for the last rejoin request."""
        if self.state.is_repeated:
            self._set(rejoin_at_s=self._now_s + REJOIN_DELAY_S)
        else:
            self._rejoin(reason)

    def _leave(self, reason: str) -> None:
        self._set(plan=None, is_unresolved=False, rejoin_at_s=None, catch_up_by_s=None)
        self.decisions += [Leave(reason), NotifyLost(reason)]

    def _return_to_group(self) -> None:
        if not self.state.is_staying_out:
            self.decisions.append(Join())
