"""Tests for the decisions of a group member during rebalances (DistributedHerder, WorkerCoordinator)."""

from __future__ import annotations

import pytest

from kraal.cluster.membership.flow import SLOW_READ
from kraal.cluster.membership.member_state import (
    AllowJoin,
    ConfigRead,
    CoordinatorLost,
    Decision,
    Deliver,
    HerderLive,
    Join,
    Leave,
    NotifyLost,
    PrepareJoin,
    Rejoin,
    RevocationDone,
    Revoke,
    Tick,
    WorkChanged,
)
from kraal.cluster.state.wanted_work import Assignment
from kraal.protocol.group import AssignmentError, ConnectorOrTask, GroupProtocol
from tests.fakes.cluster.member_scenario import (
    ALL,
    C1,
    C2,
    DEFAULT,
    NO_WORK,
    OFFSET,
    SESSIONED,
    Scenario,
    create_working_member,
    tasks,
)

# -- joins -------------------------------------------------------------------------------------------------


def test_eager_member_stops_all_work_before_joining() -> None:
    scenario = create_working_member(*ALL, protocol=DEFAULT)
    assert scenario.handle(WorkChanged()) == [Rejoin("connectors or tasks have changed")]
    assert scenario.handle(PrepareJoin()) == [Revoke(1, NO_WORK)]
    assert scenario.handle(RevocationDone(1)) == [AllowJoin()]
    assert scenario.receive_assignment(ConnectorOrTask(C1), protocol=DEFAULT) == [Deliver()]
    assert scenario.owned == Assignment(connectors=frozenset({C1}))


def test_cooperative_member_keeps_running_while_joining() -> None:
    scenario = create_working_member(*ALL)
    assert scenario.handle(PrepareJoin(away_s=0.4)) == [AllowJoin()]
    assert scenario.receive_assignment() == [Deliver()]
    assert scenario.owned.tasks == tasks(0, 1)


# -- assignments -------------------------------------------------------------------------------------------


def test_revoked_instances_stop_before_they_are_reassigned() -> None:
    scenario = create_working_member(*ALL)
    kept_work = Assignment(connectors=frozenset({C1}), tasks=tasks(0))
    assert scenario.handle(PrepareJoin()) == [AllowJoin()]
    assert scenario.receive_assignment(revoked=(ConnectorOrTask(C1, 1),)) == [Revoke(1, kept_work)]
    assert scenario.handle(RevocationDone(1)) == [Deliver(), Rejoin("all revoked work has stopped")]
    assert scenario.state.assignment is not None
    assert scenario.state.assignment.revoked == ()
    assert scenario.owned == kept_work


def test_new_work_starts_after_revoked_work_has_stopped() -> None:
    scenario = create_working_member(*ALL)
    assert scenario.receive_assignment(ConnectorOrTask(C2), revoked=(ConnectorOrTask(C1, 1),)) == [
        Revoke(1, Assignment(connectors=frozenset({C1}), tasks=tasks(0)))
    ]


def test_rebalance_by_another_member_waits_until_revoked_work_has_stopped() -> None:
    scenario = create_working_member(*ALL)
    scenario.receive_assignment(revoked=(ConnectorOrTask(C1, 1),))
    assert scenario.handle(PrepareJoin()) == []
    assert scenario.handle(RevocationDone(1)) == [AllowJoin()]


def test_failed_round_revokes_no_work() -> None:
    scenario = create_working_member(*ALL)
    scenario.receive_assignment(error=AssignmentError.CONFIG_MISMATCH)
    assert scenario.owned.tasks == tasks(0, 1)
    assert scenario.state.running.tasks == tasks(0, 1)


def test_revoking_idle_work_needs_no_herder() -> None:
    scenario = create_working_member()
    assert scenario.receive_assignment(revoked=(ConnectorOrTask(C1, 1),)) == [
        Deliver(),
        Rejoin("all revoked work has stopped"),
    ]


# -- reading the config ------------------------------------------------------------------------------------


def test_lagging_member_reads_configs_before_starting_work() -> None:
    scenario = Scenario(offset=OFFSET - 2)
    scenario.handle(HerderLive())
    assert scenario.receive_assignment(*ALL) == []
    scenario.offset += 1
    assert scenario.handle(ConfigRead()) == []
    scenario.offset += 1
    assert scenario.handle(ConfigRead()) == [Deliver()]


def test_failed_assignment_is_requested_again() -> None:
    scenario = Scenario()
    scenario.handle(HerderLive())
    assert scenario.receive_assignment(error=AssignmentError.CONFIG_MISMATCH) == [
        Rejoin("the assignment failed")
    ]
    assert scenario.receive_assignment(*ALL) == [Deliver()]


@pytest.mark.parametrize("leader", ["me", "leader"])
def test_lagging_member_reads_configs_before_rejoining_after_a_failed_assignment(leader: str) -> None:
    scenario = Scenario(offset=OFFSET - 1)
    scenario.handle(HerderLive())
    assert scenario.receive_assignment(error=AssignmentError.CONFIG_MISMATCH, leader=leader) == []
    # If another member joins first, this member joins only after reading the config.
    assert scenario.handle(PrepareJoin()) == []
    scenario.offset = OFFSET
    assert scenario.handle(ConfigRead()) == [AllowJoin()]


@pytest.mark.parametrize("read_up_to", [OFFSET + 1, OFFSET + 10])
def test_member_ahead_of_the_assignment_rejoins_without_starting_work(read_up_to: int) -> None:
    scenario = Scenario(offset=read_up_to)
    scenario.handle(HerderLive())
    reason = f"config read up to offset {read_up_to}, but the assignment requires offset {OFFSET}"
    assert scenario.receive_assignment(*ALL) == [Rejoin(reason)]
    assert scenario.receive_assignment(*ALL, offset=read_up_to) == [Deliver()]


def test_member_reading_past_the_offset_starts_no_work() -> None:
    scenario = Scenario(offset=OFFSET - 1)
    scenario.handle(HerderLive())
    scenario.receive_assignment(*ALL)
    scenario.offset = OFFSET + 1
    [decision] = scenario.handle(ConfigRead())
    assert isinstance(decision, Rejoin)


def test_config_read_later_starts_no_work() -> None:
    scenario = create_working_member(*ALL)
    scenario.offset += 1
    assert scenario.handle(ConfigRead()) == []


# -- delayed rebalances ------------------------------------------------------------------------------------


def test_member_rejoins_when_the_delay_has_expired() -> None:
    scenario = create_working_member(*ALL)
    assert scenario.receive_assignment(delay_ms=30_000) == [Deliver()]
    assert scenario.advance(29.9) == []
    assert scenario.advance(0.1) == [Rejoin("the rebalance delay has expired")]
    assert scenario.advance(100) == []


def test_no_work_starts_if_the_delay_expires_before_the_config_is_read() -> None:
    scenario = Scenario(offset=OFFSET - 1)
    scenario.handle(HerderLive())
    assert scenario.receive_assignment(*ALL, delay_ms=1000) == []
    scenario.now_s += 2
    assert scenario.handle(Tick()) == []
    scenario.offset = OFFSET
    assert scenario.handle(ConfigRead()) == [Rejoin("the rebalance delay has expired")]


# -- unreadable config -------------------------------------------------------------------------------------


def test_eager_member_with_an_unreadable_config_leaves_for_300_s() -> None:
    scenario = Scenario(offset=OFFSET - 1)
    scenario.handle(HerderLive())
    assert scenario.receive_assignment(*ALL, protocol=DEFAULT) == []
    assert scenario.advance(3) == [Leave(SLOW_READ), NotifyLost(SLOW_READ)]
    assert scenario.state.pause_until_s == scenario.now_s + 300
    assert scenario.advance(303) == []
    assert scenario.state.pause_until_s == scenario.now_s + 300
    scenario.offset = OFFSET
    assert scenario.handle(ConfigRead()) == [Join()]


def test_cooperative_member_backs_off_and_finally_revokes_its_work() -> None:
    scenario = create_working_member(*ALL)
    assert scenario.receive_assignment(ConnectorOrTask(C2), offset=OFFSET + 1) == []
    assert scenario.advance(3) == [Leave(SLOW_READ), NotifyLost(SLOW_READ)]
    pauses_ms: list[int] = []
    decisions: list[Decision] = []
    for _ in range(5):
        assert scenario.state.running.tasks == tasks(0, 1)
        assert scenario.state.pause_until_s is not None
        pauses_ms.append(round((scenario.state.pause_until_s - scenario.now_s) * 1000))
        decisions = scenario.advance(pauses_ms[-1] / 1000 + 3)
    assert pauses_ms == [6000, 7500, 10_000, 15_000, 30_000]
    assert decisions == [Revoke(1, NO_WORK)]
    assert scenario.state.assignment is None
    scenario.handle(RevocationDone(1))
    assert scenario.advance(3) == []  # the backoff starts again
    assert scenario.state.pause_until_s == scenario.now_s + 6
    scenario.offset = OFFSET + 1
    assert scenario.handle(ConfigRead()) == [Join()]
    assert scenario.state.retries == 5


def test_success_resets_the_backoff() -> None:
    scenario = create_working_member(*ALL)
    scenario.receive_assignment(offset=OFFSET + 1)
    scenario.advance(3 + 6 + 3)
    scenario.offset = OFFSET + 1
    assert scenario.handle(ConfigRead()) == [Join()]
    scenario.handle(PrepareJoin(away_s=5.0))
    scenario.receive_assignment(offset=OFFSET + 2)
    scenario.advance(3)
    assert scenario.state.pause_until_s == scenario.now_s + 6


def test_leaving_releases_a_join_that_waits_for_the_config() -> None:
    scenario = Scenario(offset=OFFSET - 1)
    scenario.handle(HerderLive())
    scenario.receive_assignment(error=AssignmentError.CONFIG_MISMATCH, leader="me")
    assert scenario.handle(PrepareJoin()) == []
    assert scenario.advance(3) == [Leave(SLOW_READ), NotifyLost(SLOW_READ), AllowJoin()]


def test_member_outside_the_group_requests_no_rebalance() -> None:
    scenario = Scenario(offset=OFFSET - 1)
    scenario.handle(HerderLive())
    scenario.receive_assignment(*ALL)
    scenario.advance(3)
    assert scenario.handle(WorkChanged()) == []


# -- unknown coordinator -----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [SESSIONED, DEFAULT])
def test_lost_coordinator_stops_all_work_before_a_rejoin(
    protocol: GroupProtocol,
) -> None:
    scenario = create_working_member(*ALL, protocol=protocol)
    assert scenario.handle(CoordinatorLost("gone")) == [Revoke(1, NO_WORK), NotifyLost("gone")]
    assert scenario.handle(PrepareJoin()) == []
    assert scenario.handle(RevocationDone(1)) == [AllowJoin()]
    assert scenario.state.assignment is None
    assert scenario.receive_assignment(*ALL, protocol=protocol) == [Deliver()]


def test_repeated_failed_assignment_delays_the_rejoin() -> None:
    scenario = Scenario()
    scenario.handle(HerderLive())
    assert scenario.receive_assignment(error=AssignmentError.CONFIG_MISMATCH) == [
        Rejoin("the assignment failed")
    ]
    assert scenario.receive_assignment(error=AssignmentError.CONFIG_MISMATCH, repeated=True) == []
    assert scenario.advance(0.5) == [Rejoin("the rebalance delay has expired")]
