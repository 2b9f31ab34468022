"""The member's flow, M1 to M8 of contract 4.4; B5, B6, D12, D37 of SCENARIOS.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraal.cluster.assign import work_of
from kraal.cluster.member import (
    Alive,
    AskAlive,
    Changed,
    Decision,
    Deliver,
    Done,
    Event,
    HerderLive,
    Join,
    Leave,
    Lost,
    MemberSettings,
    MemberState,
    Prepare,
    Proceed,
    Read,
    Reborn,
    Rejoin,
    Revoke,
    TellLost,
    Tick,
    Told,
)
from kraal.cluster.member_flow import HUNG, SLOW_READ, step
from kraal.cluster.work import Assignment
from kraal.ids import ConnectorName, TaskId
from kraal.protocol.group import AssignmentError, GroupAssignment, GroupProtocol, Job

C1, C2 = ConnectorName("c1"), ConnectorName("c2")
ALL = (Job(C1), Job(C1, 0), Job(C1, 1))
OFFSET = 7
NOTHING = Assignment()
SESSIONED, DEFAULT = GroupProtocol.SESSIONED, GroupProtocol.DEFAULT


class Story:
    """One member, as its flow sees it."""

    def __init__(self, offset: int = OFFSET) -> None:
        self.state = MemberState()
        self.settings = MemberSettings()
        self.offset = offset
        self.now_s = 1000.0

    def on(self, event: Event) -> list[Decision]:
        self.state, decisions = step(
            self.state, event, now_s=self.now_s, offset=self.offset, settings=self.settings
        )
        return [d for d in decisions if not isinstance(d, AskAlive)]

    def told(
        self,
        *assigned: Job,
        revoked: tuple[Job, ...] = (),
        delay_ms: int = 0,
        offset: int = OFFSET,
        error: int = AssignmentError.NO_ERROR,
        leader: str = "leader",
        protocol: GroupProtocol = SESSIONED,
    ) -> list[Decision]:
        assignment = GroupAssignment(
            version=protocol.version,
            error=error,
            leader=leader,
            leader_url="http://leader/",
            config_offset=offset,
            assigned=assigned,
            revoked=revoked,
            delay_ms=delay_ms,
        )
        generation = self.state.generation + 1
        return self.on(Told(protocol=protocol, generation=generation, member_id="me", assignment=assignment))

    def wait(self) -> list[Decision]:
        """Let time pass until the flow wants to look, the herder being well."""
        self.on(Alive())
        wake_s = self.state.wake_s(self.settings)
        assert wake_s is not None
        self.now_s = max(self.now_s, wake_s)
        return self.on(Tick())

    def sleep(self, seconds: float) -> list[Decision]:
        """Let time pass, looking whenever the flow wants to."""
        end, found = self.now_s + seconds, []
        while (wake_s := self.state.wake_s(self.settings)) is not None and wake_s <= end:
            found += self.wait()
        self.now_s = end
        return found + self.on(Tick())

    @property
    def owned(self) -> Assignment:
        return NOTHING if self.state.assignment is None else work_of(self.state.assignment)


def working(*jobs: Job, protocol: GroupProtocol = SESSIONED) -> Story:
    """Return a member that runs these."""
    story = Story()
    assert story.on(HerderLive()) == [Join()]
    assert story.on(Prepare(away_s=float("inf"))) == [Proceed()]
    assert story.told(*jobs, protocol=protocol) == [Deliver()]
    return story


def tasks(*numbers: int) -> frozenset[TaskId]:
    return frozenset(TaskId(C1, n) for n in numbers)


# -- M1 ----------------------------------------------------------------------------------------------------


def test_m1_an_eager_member_stops_everything_before_it_joins() -> None:
    story = working(*ALL, protocol=DEFAULT)
    assert story.on(Changed()) == [Rejoin("connectors or tasks have changed")]
    assert story.on(Prepare()) == [Revoke(1, NOTHING)]
    assert story.on(Done(1)) == [Proceed()]
    assert story.told(Job(C1), protocol=DEFAULT) == [Deliver()]
    assert story.owned == Assignment(connectors=frozenset({C1}))


def test_m1_b6_a_cooperative_member_keeps_running_while_it_joins() -> None:
    story = working(*ALL)
    assert story.on(Prepare(away_s=0.4)) == [Proceed()]
    assert story.told() == [Deliver()]
    assert story.owned.tasks == tasks(0, 1)


# -- M2 ----------------------------------------------------------------------------------------------------


def test_m2_m6_what_is_revoked_stops_first_and_a_second_round_hands_it_out() -> None:
    story = working(*ALL)
    keep = Assignment(connectors=frozenset({C1}), tasks=tasks(0))
    assert story.on(Prepare()) == [Proceed()]
    assert story.told(revoked=(Job(C1, 1),)) == [Revoke(1, keep)]
    assert story.on(Done(1)) == [Deliver(), Rejoin("what was revoked has stopped")]
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
    assert story.on(Done(1)) == [Proceed()]


def test_m2_a_failed_round_takes_nothing_away() -> None:
    story = working(*ALL)
    story.told(error=AssignmentError.CONFIG_MISMATCH)
    assert story.owned.tasks == tasks(0, 1)
    assert story.state.running.tasks == tasks(0, 1)


def test_m2_revocations_of_what_does_not_run_need_no_herder() -> None:
    story = working()
    assert story.told(revoked=(Job(C1, 1),)) == [Deliver(), Rejoin("what was revoked has stopped")]


# -- M3, M5 ------------------------------------------------------------------------------------------------


def test_m3_who_has_read_less_reads_on_before_it_works() -> None:
    story = Story(offset=OFFSET - 2)
    story.on(HerderLive())
    assert story.told(*ALL) == []
    story.offset += 1
    assert story.on(Read()) == []
    story.offset += 1
    assert story.on(Read()) == [Deliver()]


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
    assert story.on(Prepare()) == []  # somebody else is quicker: the join waits for us to read
    story.offset = OFFSET
    assert story.on(Read()) == [Proceed()]


@pytest.mark.parametrize("read_up_to", [OFFSET + 1, OFFSET + 10])
def test_m5_who_has_read_more_starts_nothing_and_joins_again(read_up_to: int) -> None:
    story = Story(offset=read_up_to)
    story.on(HerderLive())
    reason = f"the config is read up to {read_up_to}, and was assigned by {OFFSET}"
    assert story.told(*ALL) == [Rejoin(reason)]
    assert story.told(*ALL, offset=read_up_to) == [Deliver()]


def test_m5_who_reads_past_the_offset_while_it_catches_up_starts_nothing() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    story.told(*ALL)
    story.offset = OFFSET + 1
    [decision] = story.on(Read())
    assert isinstance(decision, Rejoin)


def test_config_that_is_read_later_starts_nothing_by_itself() -> None:
    story = working(*ALL)
    story.offset += 1
    assert story.on(Read()) == []


# -- M4 ----------------------------------------------------------------------------------------------------


def test_m4_when_the_delay_is_over_there_is_another_round() -> None:
    story = working(*ALL)
    assert story.told(delay_ms=30_000) == [Deliver()]
    assert story.sleep(29.9) == []
    assert story.sleep(0.1) == [Rejoin("the delay of the rebalance is over")]
    assert story.sleep(100) == []


def test_m4_no_work_starts_when_the_delay_is_over_before_the_config_is_read() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    assert story.told(*ALL, delay_ms=1000) == []
    story.now_s += 2
    assert story.on(Tick()) == []
    story.offset = OFFSET
    assert story.on(Read()) == [Rejoin("the delay of the rebalance is over")]


# -- M7: D37 -----------------------------------------------------------------------------------------------


def test_m7_d37_an_eager_member_that_cannot_read_leaves_and_sleeps_300_s() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    assert story.told(*ALL, protocol=DEFAULT) == []
    assert story.sleep(3) == [Leave(SLOW_READ), TellLost(SLOW_READ)]
    assert story.state.pause_until_s == story.now_s + 300
    assert story.sleep(303) == []
    assert story.state.pause_until_s == story.now_s + 300
    story.offset = OFFSET
    assert story.on(Read()) == [Join()]


def test_m7_d37_a_cooperative_member_sleeps_longer_each_time_and_then_gives_up_its_work() -> None:
    story = working(*ALL)
    assert story.told(Job(C2), offset=OFFSET + 1) == []
    assert story.sleep(3) == [Leave(SLOW_READ), TellLost(SLOW_READ)]
    pauses = []
    for _ in range(5):
        assert story.state.running.tasks == tasks(0, 1)
        assert story.state.pause_until_s is not None
        pauses.append(round((story.state.pause_until_s - story.now_s) * 1000))
        decisions = story.sleep(pauses[-1] / 1000 + 3)
    assert pauses == [6000, 7500, 10_000, 15_000, 30_000]
    assert decisions == [Revoke(1, NOTHING)]
    assert story.state.assignment is None
    story.on(Done(1))
    assert story.sleep(3) == []  # and the cycle begins anew
    assert story.state.pause_until_s == story.now_s + 6
    story.offset = OFFSET + 1
    assert story.on(Read()) == [Join()]
    assert story.state.retries == 5


def test_m7_a_success_begins_the_pauses_anew() -> None:
    story = working(*ALL)
    story.told(offset=OFFSET + 1)
    story.sleep(3 + 6 + 3)
    story.offset = OFFSET + 1
    assert story.on(Read()) == [Join()]
    story.on(Prepare(away_s=5.0))
    story.told(offset=OFFSET + 2)
    story.sleep(3)
    assert story.state.pause_until_s == story.now_s + 6


def test_m7_a_join_that_waits_for_the_config_is_let_go_when_the_member_leaves() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    story.told(error=AssignmentError.CONFIG_MISMATCH, leader="me")
    assert story.on(Prepare()) == []
    assert story.sleep(3) == [Leave(SLOW_READ), TellLost(SLOW_READ), Proceed()]


def test_m7_nobody_asks_for_a_rebalance_while_it_is_out() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    story.told(*ALL)
    story.sleep(3)
    assert story.on(Changed()) == []


# -- M8 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", [SESSIONED, DEFAULT])
def test_m8_without_a_coordinator_all_work_stops_and_the_member_comes_back_with_none(
    protocol: GroupProtocol,
) -> None:
    story = working(*ALL, protocol=protocol)
    assert story.on(Lost("gone")) == [Revoke(1, NOTHING), TellLost("gone")]
    assert story.on(Prepare()) == []
    assert story.on(Done(1)) == [Proceed()]
    assert story.state.assignment is None
    assert story.told(*ALL, protocol=protocol) == [Deliver()]


# -- rule 4: who was away ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expelled", "away_s", "stops", "claims"),
    [
        pytest.param(False, 9.9, False, True, id="a short silence: the group still counts on us"),
        pytest.param(False, 10.0, True, True, id="a session: we may be out"),
        pytest.param(True, 0.1, True, True, id="put out a moment ago"),
        pytest.param(True, 299.0, True, True, id="nobody has been given the work yet"),
        pytest.param(True, 300.0, True, False, id="the delay is over: it runs elsewhere"),
    ],
)
def test_who_was_away_stops_before_it_joins(
    expelled: bool,  # noqa: FBT001 - a row of a table
    away_s: float,
    stops: bool,  # noqa: FBT001 - as above
    claims: bool,  # noqa: FBT001 - as above
) -> None:
    story = working(*ALL)
    decisions = story.on(Prepare(expelled=expelled, away_s=away_s))
    assert decisions == ([Revoke(1, NOTHING)] if stops else [Proceed()])
    assert (story.state.assignment is not None) == claims
    if stops:
        assert story.on(Done(1)) == [Proceed()]
    assert story.told() == [Deliver()]
    assert story.owned.tasks == (tasks(0, 1) if claims else tasks())
    assert story.state.running == story.owned


# -- the herder --------------------------------------------------------------------------------------------


def test_a_herder_that_comes_back_is_told_the_same_again() -> None:
    story = working(*ALL)
    assert story.on(HerderLive()) == [Deliver()]


def test_a_herder_that_comes_back_to_another_config_gets_a_fresh_assignment() -> None:
    story = working(*ALL)
    story.offset += 3
    assert story.on(HerderLive()) == [Rejoin("the herder began anew")]


def test_a_herder_that_died_while_it_stopped_work_is_told_to_stop_again() -> None:
    story = working(*ALL, protocol=DEFAULT)
    story.on(Prepare())
    assert story.on(HerderLive()) == [Revoke(2, NOTHING)]
    assert story.on(Done(1)) == []
    assert story.on(Done(2)) == [Proceed()]
    assert story.on(HerderLive()) == []  # stopped, and not assigned again yet


def test_d12_a_herder_that_hangs_leaves_the_group_and_comes_back() -> None:
    story = working(*ALL)
    story.on(Changed())
    decisions: list[Decision] = []
    began_s = story.now_s
    while not decisions and story.now_s < began_s + 100:
        story.now_s += 5
        decisions = story.on(Tick())
    assert decisions == [Leave(HUNG), TellLost(HUNG)]
    assert 60 <= story.now_s - began_s <= 75
    assert story.on(Changed()) == []
    assert story.on(Alive()) == [Join()]
    assert story.on(Prepare(away_s=70.0)) == [Revoke(1, NOTHING)]


def test_a_herder_that_answers_keeps_its_place() -> None:
    story = working(*ALL)
    asked = 0
    for _ in range(40):
        story.now_s += 5
        story.state, decisions = step(
            story.state, Tick(), now_s=story.now_s, offset=OFFSET, settings=story.settings
        )
        asked += decisions.count(AskAlive())
        story.on(Alive())
    assert asked == 40
    assert not story.state.hung


def test_a_process_that_was_frozen_as_a_whole_does_not_take_its_herder_for_dead() -> None:
    story = working(*ALL)
    story.now_s += 5
    story.on(Tick())
    story.now_s += 500
    assert story.on(Tick()) == []
    assert not story.state.hung


# -- membership's own death --------------------------------------------------------------------------------


def test_membership_that_died_before_it_began_has_nothing_to_repeat() -> None:
    assert Story().on(Reborn()) == []


def test_membership_that_comes_back_joins_again_and_keeps_the_work() -> None:
    story = working(*ALL)
    assert story.on(Reborn()) == [Join(), Rejoin("membership began anew")]
    assert story.on(Prepare()) == [Proceed()]
    assert story.told() == [Deliver()]
    assert story.owned.tasks == tasks(0, 1)


def test_membership_that_comes_back_repeats_a_revocation() -> None:
    story = working(*ALL)
    story.told(revoked=(Job(C1, 1),))
    keep = story.state.running
    assert story.on(Reborn()) == [Revoke(2, keep), Join(), Rejoin("membership began anew")]


def test_membership_that_comes_back_stays_out_while_the_config_cannot_be_read() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    story.told(*ALL)
    story.sleep(3)
    assert story.on(Reborn()) == [Leave(SLOW_READ)]
    story.offset = OFFSET
    assert story.on(Read()) == [Join()]


# -- other things ------------------------------------------------------------------------------------------


def test_an_answer_that_comes_after_leaving_starts_nothing() -> None:
    story = working(*ALL)
    story.told(Job(C2), offset=OFFSET + 1)
    story.sleep(3)
    assert story.told(Job(C2, 0), offset=OFFSET) == []
    assert story.state.pause_until_s is not None


def test_a_change_from_cooperative_to_eager_stops_what_is_not_ours_any_more() -> None:
    story = working(*ALL)
    assert story.on(Prepare()) == [Proceed()]
    assert story.told(Job(C1, 0), protocol=DEFAULT) == [Deliver()]
    assert story.state.running.tasks == tasks(0)


@pytest.mark.parametrize("protocol", [SESSIONED, DEFAULT])
def test_the_flow_never_wants_to_wake_in_the_past(protocol: GroupProtocol) -> None:
    story = working(*ALL, protocol=protocol)
    for event in (Lost("gone"), Prepare(), Done(1), Changed(), Tick(), Prepare(expelled=True)):
        story.on(event)
        story.told(*ALL, offset=OFFSET + 1, delay_ms=1, protocol=protocol)
        story.now_s += 10
        story.on(Tick())
        wake_s = story.state.wake_s(replace(story.settings))
        assert wake_s is None or wake_s > story.now_s
