"""The member's flow when it was away, when the herder dies or hangs, and when membership itself dies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kraal.cluster.membership.flow import HUNG, SLOW_READ, step
from kraal.cluster.membership.member_state import (
    AllowJoin,
    Changed,
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
    Prepare,
    Rejoin,
    RevocationDone,
    Revoke,
    Tick,
)
from kraal.protocol.group import GroupProtocol, Job
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
    assert decisions == ([Revoke(1, NOTHING)] if stops else [AllowJoin()])
    assert (story.state.assignment is not None) == claims
    if stops:
        assert story.on(RevocationDone(1)) == [AllowJoin()]
    assert story.told() == [Deliver()]
    assert story.owned.tasks == (tasks(0, 1) if claims else tasks())
    assert story.state.running == story.owned


# -- the herder --------------------------------------------------------------------------------------------


def test_restarted_herder_receives_the_assignment_again() -> None:
    story = working(*ALL)
    assert story.on(HerderLive()) == [Deliver()]


def test_a_herder_that_comes_back_to_another_config_gets_a_fresh_assignment() -> None:
    story = working(*ALL)
    story.offset += 3
    assert story.on(HerderLive()) == [Rejoin("the herder was restarted")]


def test_herder_that_died_during_a_revocation_gets_it_again() -> None:
    story = working(*ALL, protocol=DEFAULT)
    story.on(Prepare())
    assert story.on(HerderLive()) == [Revoke(2, NOTHING)]
    assert story.on(RevocationDone(1)) == []
    assert story.on(RevocationDone(2)) == [AllowJoin()]
    assert story.on(HerderLive()) == []  # stopped, and not assigned again yet


def test_d12_a_herder_that_hangs_leaves_the_group_and_comes_back() -> None:
    story = working(*ALL)
    story.on(Changed())
    decisions: list[Decision] = []
    began_s = story.now_s
    while not decisions and story.now_s < began_s + 100:
        story.now_s += 5
        decisions = story.on(Tick())
    assert decisions == [Leave(HUNG), NotifyLost(HUNG)]
    assert 60 <= story.now_s - began_s <= 75
    assert story.on(Changed()) == []
    assert story.on(HerderAlive()) == [Join()]
    assert story.on(Prepare(away_s=70.0)) == [Revoke(1, NOTHING)]


def test_a_herder_that_answers_keeps_its_place() -> None:
    story = working(*ALL)
    asked = 0
    for _ in range(40):
        story.now_s += 5
        story.state, decisions = step(
            story.state, Tick(), now_s=story.now_s, offset=OFFSET, settings=story.settings
        )
        asked += decisions.count(PingHerder())
        story.on(HerderAlive())
    assert asked == 40
    assert not story.state.herder_hung


def test_a_process_that_was_frozen_as_a_whole_does_not_take_its_herder_for_dead() -> None:
    story = working(*ALL)
    story.now_s += 5
    story.on(Tick())
    story.now_s += 500
    assert story.on(Tick()) == []
    assert not story.state.herder_hung


# -- membership's own death --------------------------------------------------------------------------------


def test_membership_that_died_before_it_began_has_nothing_to_repeat() -> None:
    assert Story().on(MembershipRestarted()) == []


def test_membership_that_comes_back_joins_again_and_keeps_the_work() -> None:
    story = working(*ALL)
    assert story.on(MembershipRestarted()) == [Join(), Rejoin("the membership actor was restarted")]
    assert story.on(Prepare()) == [AllowJoin()]
    assert story.told() == [Deliver()]
    assert story.owned.tasks == tasks(0, 1)


def test_membership_that_comes_back_repeats_a_revocation() -> None:
    story = working(*ALL)
    story.told(revoked=(Job(C1, 1),))
    keep = story.state.running
    assert story.on(MembershipRestarted()) == [
        Revoke(2, keep),
        Join(),
        Rejoin("the membership actor was restarted"),
    ]


def test_membership_that_comes_back_stays_out_while_the_config_cannot_be_read() -> None:
    story = Story(offset=OFFSET - 1)
    story.on(HerderLive())
    story.told(*ALL)
    story.sleep(3)
    assert story.on(MembershipRestarted()) == [Leave(SLOW_READ)]
    story.offset = OFFSET
    assert story.on(ConfigRead()) == [Join()]


# -- other things ------------------------------------------------------------------------------------------


def test_an_answer_that_comes_after_leaving_starts_nothing() -> None:
    story = working(*ALL)
    story.told(Job(C2), offset=OFFSET + 1)
    story.sleep(3)
    assert story.told(Job(C2, 0), offset=OFFSET) == []
    assert story.state.pause_until_s is not None


def test_change_from_cooperative_to_eager_stops_revoked_work() -> None:
    story = working(*ALL)
    assert story.on(Prepare()) == [AllowJoin()]
    assert story.told(Job(C1, 0), protocol=DEFAULT) == [Deliver()]
    assert story.state.running.tasks == tasks(0)


@pytest.mark.parametrize("protocol", [SESSIONED, DEFAULT])
def test_the_flow_never_wants_to_wake_in_the_past(protocol: GroupProtocol) -> None:
    story = working(*ALL, protocol=protocol)
    for event in (
        CoordinatorLost("gone"),
        Prepare(),
        RevocationDone(1),
        Changed(),
        Tick(),
        Prepare(expelled=True),
    ):
        story.on(event)
        story.told(*ALL, offset=OFFSET + 1, delay_ms=1, protocol=protocol)
        story.now_s += 10
        story.on(Tick())
        wake_s = story.state.wake_s(replace(story.settings))
        assert wake_s is None or wake_s > story.now_s
