"""Tests for a member after an absence, with a dead or hung herder, and after the death of the membership actor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraal.cluster.membership.flow import HERDER_HUNG, SLOW_READ, step
from kraal.cluster.membership.member_state import (
    AllowJoin,
    ConfigRead,
    CoordinatorLost,
    Decision,
    Deliver,
    HerderAlive,
    HerderLive,
    Join,
    Leave,
    MembershipRestarted,
    NotifyLost,
    PingHerder,
    PrepareJoin,
    Rejoin,
    RevocationDone,
    Revoke,
    Tick,
    WorkChanged,
)
from kraal.protocol.group import ConnectorOrTask, GroupProtocol
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

# -- member after an absence -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("was_expelled", "away_s", "revokes_work", "keeps_assignment"),
    [
        pytest.param(False, 9.9, False, True, id="short absence: still a member"),
        pytest.param(False, 10.0, True, True, id="absent for a session timeout: possibly expelled"),
        pytest.param(True, 0.1, True, True, id="just expelled"),
        pytest.param(True, 299.0, True, True, id="expelled, work not reassigned yet"),
        pytest.param(True, 300.0, True, False, id="expelled, work reassigned after the delay"),
    ],
)
def test_absent_member_revokes_its_work_before_joining(
    was_expelled: bool,  # noqa: FBT001 - parametrized
    away_s: float,
    revokes_work: bool,  # noqa: FBT001 - as above
    keeps_assignment: bool,  # noqa: FBT001 - as above
) -> None:
    scenario = create_working_member(*ALL)
    decisions = scenario.handle(PrepareJoin(expelled=was_expelled, away_s=away_s))
    assert decisions == ([Revoke(1, NO_WORK)] if revokes_work else [AllowJoin()])
    assert (scenario.state.assignment is not None) == keeps_assignment
    if revokes_work:
        assert scenario.handle(RevocationDone(1)) == [AllowJoin()]
    assert scenario.receive_assignment() == [Deliver()]
    assert scenario.owned.tasks == (tasks(0, 1) if keeps_assignment else tasks())
    assert scenario.state.running == scenario.owned


# -- the herder --------------------------------------------------------------------------------------------


def test_restarted_herder_receives_the_assignment_again() -> None:
    scenario = create_working_member(*ALL)
    assert scenario.handle(HerderLive()) == [Deliver()]


def test_restarted_herder_with_a_newer_config_requests_a_rebalance() -> None:
    scenario = create_working_member(*ALL)
    scenario.offset += 3
    assert scenario.handle(HerderLive()) == [Rejoin("the herder was restarted")]


def test_restarted_herder_receives_a_pending_revocation_again() -> None:
    scenario = create_working_member(*ALL, protocol=DEFAULT)
    scenario.handle(PrepareJoin())
    assert scenario.handle(HerderLive()) == [Revoke(2, NO_WORK)]
    assert scenario.handle(RevocationDone(1)) == []
    assert scenario.handle(RevocationDone(2)) == [AllowJoin()]
    assert scenario.handle(HerderLive()) == []  # the work has stopped and has not been reassigned yet


def test_member_leaves_while_its_herder_hangs_and_rejoins_afterwards() -> None:
    scenario = create_working_member(*ALL)
    scenario.handle(WorkChanged())
    decisions: list[Decision] = []
    start_s = scenario.now_s
    while not decisions and scenario.now_s < start_s + 100:
        scenario.now_s += 5
        decisions = scenario.handle(Tick())
    assert decisions == [Leave(HERDER_HUNG), NotifyLost(HERDER_HUNG)]
    assert 60 <= scenario.now_s - start_s <= 75
    assert scenario.handle(WorkChanged()) == []
    assert scenario.handle(HerderAlive()) == [Join()]
    assert scenario.handle(PrepareJoin(away_s=70.0)) == [Revoke(1, NO_WORK)]


def test_responding_herder_is_not_considered_hung() -> None:
    scenario = create_working_member(*ALL)
    ping_count = 0
    for _ in range(40):
        scenario.now_s += 5
        scenario.state, decisions = step(
            scenario.state, Tick(), now_s=scenario.now_s, offset=OFFSET, settings=scenario.settings
        )
        ping_count += decisions.count(PingHerder())
        scenario.handle(HerderAlive())
    assert ping_count == 40
    assert not scenario.state.is_herder_hung


def test_frozen_process_does_not_consider_its_herder_hung() -> None:
    scenario = create_working_member(*ALL)
    scenario.now_s += 5
    scenario.handle(Tick())
    scenario.now_s += 500
    assert scenario.handle(Tick()) == []
    assert not scenario.state.is_herder_hung


# -- death of membership -----------------------------------------------------------------------------------


def test_membership_restarted_before_it_began_repeats_nothing() -> None:
    assert Scenario().handle(MembershipRestarted()) == []


def test_restarted_membership_rejoins_and_keeps_its_work() -> None:
    scenario = create_working_member(*ALL)
    assert scenario.handle(MembershipRestarted()) == [Join(), Rejoin("the membership actor was restarted")]
    assert scenario.handle(PrepareJoin()) == [AllowJoin()]
    assert scenario.receive_assignment() == [Deliver()]
    assert scenario.owned.tasks == tasks(0, 1)


def test_restarted_membership_repeats_a_revocation() -> None:
    scenario = create_working_member(*ALL)
    scenario.receive_assignment(revoked=(ConnectorOrTask(C1, 1),))
    kept_work = scenario.state.running
    assert scenario.handle(MembershipRestarted()) == [
        Revoke(2, kept_work),
        Join(),
        Rejoin("the membership actor was restarted"),
    ]


def test_restarted_membership_joins_only_after_the_config_is_read() -> None:
    scenario = Scenario(offset=OFFSET - 1)
    scenario.handle(HerderLive())
    scenario.receive_assignment(*ALL)
    scenario.advance(3)
    assert scenario.handle(MembershipRestarted()) == [Leave(SLOW_READ)]
    scenario.offset = OFFSET
    assert scenario.handle(ConfigRead()) == [Join()]


# -- other events ------------------------------------------------------------------------------------------


def test_assignment_received_after_leaving_is_ignored() -> None:
    scenario = create_working_member(*ALL)
    scenario.receive_assignment(ConnectorOrTask(C2), offset=OFFSET + 1)
    scenario.advance(3)
    assert scenario.receive_assignment(ConnectorOrTask(C2, 0), offset=OFFSET) == []
    assert scenario.state.pause_until_s is not None


def test_change_from_cooperative_to_eager_drops_unassigned_work() -> None:
    scenario = create_working_member(*ALL)
    assert scenario.handle(PrepareJoin()) == [AllowJoin()]
    assert scenario.receive_assignment(ConnectorOrTask(C1, 0), protocol=DEFAULT) == [Deliver()]
    assert scenario.state.running.tasks == tasks(0)


@pytest.mark.parametrize("protocol", [SESSIONED, DEFAULT])
def test_wake_time_is_never_in_the_past(protocol: GroupProtocol) -> None:
    scenario = create_working_member(*ALL, protocol=protocol)
    for event in (
        CoordinatorLost("gone"),
        PrepareJoin(),
        RevocationDone(1),
        WorkChanged(),
        Tick(),
        PrepareJoin(expelled=True),
    ):
        scenario.handle(event)
        scenario.receive_assignment(*ALL, offset=OFFSET + 1, delay_ms=1, protocol=protocol)
        scenario.now_s += 10
        scenario.handle(Tick())
        wake_s = scenario.state.wake_s(replace(scenario.settings))
        assert wake_s is None or wake_s > scenario.now_s
