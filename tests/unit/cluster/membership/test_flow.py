"""The member's flow through rebalances (DistributedHerder, WorkerCoordinator)."""

from __future__ import annotations

import pytest

from kraal.cluster.membership.flow import SLOW_READ
from kraal.cluster.membership.member_state import (
    AllowJoin,
    Changed,
    ConfigRead,
    CoordinatorLost,
    Decision,
    Deliver,
    HerderLive,
    Join,
    Leave,
    NotifyLost,
    Prepare,
    Rejoin,
    RevocationDone,
    Revoke,
    Tick,
)
from kraal.cluster.state.wanted_work import Assignment
from kraal.protocol.group import AssignmentError, GroupProtocol, Job
from tests.fakes.cluster.member_story import (
    ALL,
    C1,
    C2,
    DEFAULT,
    NOTHING,
    OFFSET,
    SESSIONED,
    Story,
    tasks,
    working,
)

# -- joins -------------------------------------------------------------------------------------------------


def test_m1_an_eager_member_stops_everything_before_it_joins() -> None:
    story = working(*ALL, protocol=DEFAULT)
    assert story.on(Changed()) == [Rejoin("connectors or tasks have changed")]
    assert story.on(Prepare()) == [Revoke(1, NOTHING)]
    assert story.on(RevocationDone(1)) == [AllowJoin()]
    assert story.told(Job(C1), protocol=DEFAULT) == [Deliver()]
    assert story.owned == Assignment(connectors=frozenset({C1}))


def test_m1_b6_a_cooperative_member_keeps_running_while_it_joins() -> None:
    story = working(*ALL)
    assert story.on(Prepare(away_s=0.4)) == [AllowJoin()]
    assert story.told() == [Deliver()]
    assert story.owned.tasks == tasks(0, 1)


# -- assignments -------------------------------------------------------------------------------------------


def test_m2_m6_revoked_jobs_stop_before_the_second_round_assigns_them() -> None:
    story = working(*ALL)
    keep = Assignment(connectors=frozenset({C1}), tasks=tasks(0))
    assert story.on(Prepare()) == [AllowJoin()]
    assert story.told(revoked=(Job(C1, 1),)) == [Revoke(1, keep)]
    assert story.on(RevocationDone(1)) == [Deliver(), Rejoin("all revoked work has stopped")]
    assert story.state.assignment is not None
    assert story.state.assignment.revoked == ()
    assert story.owned == keep


def test_m2_nothing_new_starts_before_what_is_revoked_has_stopped() -> None:
    story = working(*ALL)
    assert story.told(Job(C2), revoked=(Job(C1, 1),)) == [
        Revoke(1, Assignment(connectors=frozenset({C1}), tasks=tasks(0)))
    ]


def test_m2_a_rebalance_of_somebody_else_waits_until_the_revoked_has_stopped() -> None:
    story = working(*ALL)
    story.told(revoked=(Job(C1, 1),))
    assert story.on(Prepare()) == []
    assert story.on(RevocationDone(1)) == [AllowJoin()]


def test_m2_a_failed_round_takes_nothing_away() -> None:
    story = working(*ALL)
    story.told(error=AssignmentError.CONFIG_MISMATCH)
    assert story.owned.tasks == tasks(0, 1)
    assert story.state.running.tasks == tasks(0, 1)


def test_m2_revocations_of_what_does_not_run_need_no_herder() -> None:
    story = working()
    assert story.told(revoked=(Job(C1, 1),)) == [Deliver(), Rejoin("all revoked work has stopped")]


# -- reading the config ------------------------------------------------------------------------------------


def test_m3_who_has_read_less_reads_on_before_it_works() -> None:
    story = Story(offset=OFFSET - 2)
    story.on(HerderLive())
    assert story.told(*ALL) == []
    story.offset += 1
    assert story.on(ConfigRead()) == []
    story.offset += 1
    assert story.on(ConfigRead()) == [Deliver()]


def test_m3_b5_a_failed_assignment_is_not_used_and_asked_for_again() -> None:
    story = Story()
    story.on(HerderLive())
    assert story.told(error=AssignmentError.CONFIG_MISMATCH) == [Rejoin("the assignment failed")]
    assert story.told(*ALL) == [Deliver()]


@pytest.mark.parametrize("leader", ["me", "leader"])
def test_m3_who_lags_behind_a_failed_assignment_reads_before_it_joins_again(leader: str) -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    assert story.told(error=AssignmentError.CONFIG_MISMATCH, leader=leader) == []
    assert story.on(Prepare()) == []  # someone else is quicker: the join waits for us to read
    story.offset = OFFSET
    assert story.on(ConfigRead()) == [AllowJoin()]


@pytest.mark.parametrize("read_up_to", [OFFSET + 1, OFFSET + 10])
def test_m5_who_has_read_more_starts_nothing_and_joins_again(read_up_to: int) -> None:
    story = Story(offset=read_up_to)
    story.on(HerderLive())
    reason = f"config read up to offset {read_up_to}, but the assignment requires offset {OFFSET}"
    assert story.told(*ALL) == [Rejoin(reason)]
    assert story.told(*ALL, offset=read_up_to) == [Deliver()]


def test_m5_who_reads_past_the_offset_while_it_catches_up_starts_nothing() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    story.told(*ALL)
    story.offset = OFFSET + 1
    [decision] = story.on(ConfigRead())
    assert isinstance(decision, Rejoin)


def test_config_that_is_read_later_starts_nothing_by_itself() -> None:
    story = working(*ALL)
    story.offset += 1
    assert story.on(ConfigRead()) == []


# -- delayed rebalances ------------------------------------------------------------------------------------


def test_m4_member_rejoins_when_the_delay_has_expired() -> None:
    story = working(*ALL)
    assert story.told(delay_ms=30_000) == [Deliver()]
    assert story.sleep(29.9) == []
    assert story.sleep(0.1) == [Rejoin("the rebalance delay has expired")]
    assert story.sleep(100) == []


def test_m4_no_work_starts_when_the_delay_is_over_before_the_config_is_read() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    assert story.told(*ALL, delay_ms=1000) == []
    story.now_s += 2
    assert story.on(Tick()) == []
    story.offset = OFFSET
    assert story.on(ConfigRead()) == [Rejoin("the rebalance delay has expired")]


# -- return of a worker that could not read ----------------------------------------------------------------


def test_m7_d37_an_eager_member_that_cannot_read_leaves_and_sleeps_300_s() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    assert story.told(*ALL, protocol=DEFAULT) == []
    assert story.sleep(3) == [Leave(SLOW_READ), NotifyLost(SLOW_READ)]
    assert story.state.pause_until_s == story.now_s + 300
    assert story.sleep(303) == []
    assert story.state.pause_until_s == story.now_s + 300
    story.offset = OFFSET
    assert story.on(ConfigRead()) == [Join()]


def test_m7_d37_a_cooperative_member_sleeps_longer_each_time_and_then_gives_up_its_work() -> None:
    story = working(*ALL)
    assert story.told(Job(C2), offset=OFFSET + 1) == []
    assert story.sleep(3) == [Leave(SLOW_READ), NotifyLost(SLOW_READ)]
    pauses: list[int] = []
    decisions: list[Decision] = []
    for _ in range(5):
        assert story.state.running.tasks == tasks(0, 1)
        assert story.state.pause_until_s is not None
        pauses.append(round((story.state.pause_until_s - story.now_s) * 1000))
        decisions = story.sleep(pauses[-1] / 1000 + 3)
    assert pauses == [6000, 7500, 10_000, 15_000, 30_000]
    assert decisions == [Revoke(1, NOTHING)]
    assert story.state.assignment is None
    story.on(RevocationDone(1))
    assert story.sleep(3) == []  # and the cycle starts again
    assert story.state.pause_until_s == story.now_s + 6
    story.offset = OFFSET + 1
    assert story.on(ConfigRead()) == [Join()]
    assert story.state.retries == 5


def test_m7_success_resets_the_pauses() -> None:
    story = working(*ALL)
    story.told(offset=OFFSET + 1)
    story.sleep(3 + 6 + 3)
    story.offset = OFFSET + 1
    assert story.on(ConfigRead()) == [Join()]
    story.on(Prepare(away_s=5.0))
    story.told(offset=OFFSET + 2)
    story.sleep(3)
    assert story.state.pause_until_s == story.now_s + 6


def test_m7_a_join_that_waits_for_the_config_is_let_go_when_the_member_leaves() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    story.told(error=AssignmentError.CONFIG_MISMATCH, leader="me")
    assert story.on(Prepare()) == []
    assert story.sleep(3) == [Leave(SLOW_READ), NotifyLost(SLOW_READ), AllowJoin()]


def test_m7_member_outside_the_group_requests_no_rebalance() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    story.told(*ALL)
    story.sleep(3)
    assert story.on(Changed()) == []


# -- a coordinator that is unknown -------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [SESSIONED, DEFAULT])
def test_m8_without_a_coordinator_all_work_stops_and_the_member_rejoins_without_work(
    protocol: GroupProtocol,
) -> None:
    story = working(*ALL, protocol=protocol)
    assert story.on(CoordinatorLost("gone")) == [Revoke(1, NOTHING), NotifyLost("gone")]
    assert story.on(Prepare()) == []
    assert story.on(RevocationDone(1)) == [AllowJoin()]
    assert story.state.assignment is None
    assert story.told(*ALL, protocol=protocol) == [Deliver()]


def test_who_gets_the_same_failed_assignment_again_waits_for_the_leader() -> None:
    story = Story()
    story.on(HerderLive())
    assert story.told(error=AssignmentError.CONFIG_MISMATCH) == [Rejoin("the assignment failed")]
    assert story.told(error=AssignmentError.CONFIG_MISMATCH, again=True) == []
    assert story.sleep(0.5) == [Rejoin("the rebalance delay has expired")]
