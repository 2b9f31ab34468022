"""Tests for KafkaGroup on a real broker: leader, assignments, and detection of changes."""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.protocol.admin import DescribeGroupsRequest

from kraal.core import lease_clock
from kraal.kafka.group_coordinator import LeaseHeartbeat
from kraal.protocol.group import ConnectProtocol
from scripts.harness.processes import wait_until
from tests.fakes.kafka.kafka_member import KafkaMember, await_round, close_all, joined_after_s

pytestmark = pytest.mark.ci

AddMember = Callable[..., KafkaMember]
SESSION_S = 60.0
"""The session timeout and the rebalance timeout, after which the broker removes members that do not respond."""
SHORT_SESSION_S = 6.0
"""The broker's minimum session timeout, for a test in which a session expires."""
LIMIT_S = 25.0
"""Time within which a busy machine completes a step. It is well below `SESSION_S`, so that no session expires."""


@pytest.fixture
def add_member(bootstrap: str) -> Iterator[AddMember]:
    """Yield a function that adds a member to the group of the test."""
    group_id = f"group-{uuid.uuid4().hex[:8]}"
    members: list[KafkaMember] = []

    def make(
        protocol: ConnectProtocol = ConnectProtocol.SESSIONED, *, session_timeout_s: float = SESSION_S
    ) -> KafkaMember:
        member = KafkaMember(
            bootstrap,
            group_id,
            f"w{len(members) + 1}",
            protocol,
            session_timeout_s=session_timeout_s,
            rebalance_timeout_s=SESSION_S,
        )
        members.append(member)
        return member

    with ExitStack() as stack:
        stack.callback(close_all, members)
        yield make


def add_members(
    add_member: AddMember, count: int, *, session_timeout_s: float = SESSION_S
) -> list[KafkaMember]:
    members = [add_member(session_timeout_s=session_timeout_s) for _ in range(count)]
    generation = 0
    while not all(len(m.hooks.joins) and len(read_assigned_tasks(members)) == count for m in members):
        generation = await_round(members, generation)
    return members


def read_assigned_tasks(members: list[KafkaMember]) -> set[int]:
    """Return the task numbers in the latest assignments. Members of one generation have different numbers."""
    return {m.hooks.joins[-1].assignment.assigned[0].task for m in members if m.hooks.joins}


def wait_until_confirmed(*members: KafkaMember) -> None:
    """Wait until the broker has confirmed each membership in response to a request that is sent from now on."""
    start_s = time.monotonic()
    wait_until(
        "the memberships were confirmed",
        lambda: all(member.group.heartbeat_age_s() < time.monotonic() - start_s for member in members),
        timeout_s=LIMIT_S,
    )


def describe(bootstrap: str, group_id: str) -> Any:
    """Return the description of a group. kafka-python's own method supports only consumer groups."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        response = admin._manager.run(admin._manager.send, DescribeGroupsRequest(groups=[group_id]))
        return response.groups[0]
    finally:
        admin.close()


def test_single_member_is_leader(add_member: AddMember) -> None:
    start_s = time.monotonic()
    member = add_member()
    await_round([member], 0)
    assert member.is_leader
    [join] = member.hooks.joins
    assert join.protocol == "sessioned"
    assert join.assignment.leader_url == "http://w1/"
    assert [expelled for expelled, _ in member.hooks.prepare_calls] == [False]
    assert member.group.heartbeat_age_s() < time.monotonic() - start_s


def test_members_have_one_leader_and_an_assignment_each(add_member: AddMember, bootstrap: str) -> None:
    members = add_members(add_member, 3)
    assert [m.is_leader for m in members].count(True) == 1
    assert read_assigned_tasks(members) == {0, 1, 2}
    assert len({m.hooks.joins[-1].assignment.leader_url for m in members}) == 1
    description = describe(bootstrap, members[0].group._options.group_id)
    assert description.protocol_type == "connect"
    assert description.group_state == "Stable"
    assert {m.member_id for m in description.members} == {m.group.member_id for m in members}
    assert {m.group_instance_id for m in description.members} == {None}
    for member in members:
        assert sorted(member.group.members().result(20)) == ["http://w1/", "http://w2/", "http://w3/"]


def test_heartbeats_renew_the_lease(add_member: AddMember) -> None:
    members = add_members(add_member, 2)
    for _ in range(8):
        wait_until_confirmed(*members)


def test_suspension_expires_lease_until_next_response(
    add_member: AddMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = add_member()
    await_round([member], 0)
    suspension_s = member.group._options.session_timeout_s
    with monkeypatch.context() as patch:
        patch.setattr(LeaseHeartbeat, "confirm", lambda *_: None)  # responses are delayed
        assert member.group.heartbeat_age_s() < suspension_s
        lease_clock.advance(suspension_s)
        assert member.group.heartbeat_age_s() >= suspension_s
    wait_until_confirmed(member)
    assert member.hooks.generation == 1, "the broker must not have removed the member"


def test_explicit_rejoin_rebalances_quickly(add_member: AddMember) -> None:
    members = add_members(add_member, 3)
    durations_s = []
    for attempt in range(6):
        generation = members[0].hooks.generation
        start_s = members[attempt % 3].request_rebalance()
        await_round(members, generation)
        durations_s.append(joined_after_s(members, start_s))
    median_s = statistics.median(durations_s)
    print(f"rejoin of one of three: median {median_s * 1000:.0f} ms, {sorted(durations_s)}")  # noqa: T201
    assert median_s < LIMIT_S


def test_closing_a_member_rebalances_immediately(add_member: AddMember) -> None:
    members = add_members(add_member, 3)
    generation = members[0].hooks.generation
    start_s = time.monotonic()
    members[2].group.close(5)
    members[2].is_killed = True
    await_round(members[:2], generation)
    print(f"after a close: {joined_after_s(members[:2], start_s) * 1000:.0f} ms")  # noqa: T201
    assert joined_after_s(members[:2], start_s) < LIMIT_S
    assert read_assigned_tasks(members[:2]) == {0, 1}


def test_killing_a_member_rebalances_after_the_session_timeout(add_member: AddMember) -> None:
    members = add_members(add_member, 3, session_timeout_s=SHORT_SESSION_S)
    killed_member = next(m for m in members if m.is_leader)
    other_members = [m for m in members if m is not killed_member]
    generation = members[0].hooks.generation
    start_s = time.monotonic()
    age_s = killed_member.group.heartbeat_age_s()
    killed_member.kill()
    await_round(other_members, generation)
    duration_s = joined_after_s(other_members, start_s)
    print(f"after a kill: {duration_s * 1000:.0f} ms, of which 6000 are the session")  # noqa: T201
    assert SHORT_SESSION_S - age_s - 0.1 <= duration_s < SHORT_SESSION_S + LIMIT_S
    assert killed_member.group.heartbeat_age_s() > SHORT_SESSION_S
    assert [m.is_leader for m in other_members].count(True) == 1


def test_member_rejoins_under_another_id_after_leaving(add_member: AddMember) -> None:
    members = add_members(add_member, 2)
    leaving_member, other_member = members
    old_id, generation = leaving_member.group.member_id, other_member.hooks.generation
    leaving_member.group.leave("requested by a test")
    generation = await_round([other_member], generation)
    assert leaving_member.group.heartbeat_age_s() > 1e9
    leaving_member.group.resume()
    await_round(members, generation)
    assert leaving_member.group.member_id not in ("", old_id)
    assert leaving_member.hooks.prepare_calls[-1][0] is False


def test_rebalance_waits_for_members_that_have_to_revoke_work(add_member: AddMember) -> None:
    members = add_members(add_member, 2)
    slow_member, other_member = members
    generation = other_member.hooks.generation
    hold: Future[None] = Future()
    slow_member.hooks.hold = hold
    call_count = len(slow_member.hooks.prepare_calls)
    other_member.request_rebalance()
    slow_member.hooks.wait(lambda hooks: len(hooks.prepare_calls) > call_count)
    with pytest.raises(AssertionError):
        other_member.hooks.wait(lambda hooks: hooks.generation > generation, 7)
    wait_until_confirmed(slow_member)  # heartbeats must continue while work is revoked
    wait_until_confirmed(other_member)  # heartbeats must continue during a pending join
    assert other_member.hooks.generation == generation
    slow_member.hooks.hold = None
    hold.set_result(None)
    await_round(members, generation)


def test_member_can_leave_during_a_join(add_member: AddMember) -> None:
    members = add_members(add_member, 3)
    slow_member, waiting_member, other_member = members
    generation = other_member.hooks.generation
    slow_member.hooks.hold = Future()
    waiting_member.request_rebalance()
    other_member.request_rebalance()
    slow_member.hooks.wait(lambda hooks: len(hooks.prepare_calls) > 1)
    start_s = time.monotonic()
    waiting_member.group.close(30)
    waiting_member.is_killed = True
    assert time.monotonic() - start_s < LIMIT_S
    slow_member.hooks.hold.set_result(None)
    slow_member.hooks.hold = None
    remaining_members = [slow_member, other_member]
    await_round(remaining_members, generation)
    assert read_assigned_tasks(remaining_members) == {0, 1}
    leader = next(member for member in remaining_members if member.is_leader)
    assert leader.hooks.plans[-1] == {f"http://{member.name}/" for member in remaining_members}


def test_newest_common_protocol_is_elected(add_member: AddMember) -> None:
    first_member = add_member(ConnectProtocol.SESSIONED)
    generation = await_round([first_member], 0)
    second_member = add_member(ConnectProtocol.COMPATIBLE)
    generation = await_round([first_member, second_member], generation)
    assert {m.hooks.joins[-1].protocol for m in (first_member, second_member)} == {"compatible"}
    third_member = add_member(ConnectProtocol.EAGER)
    await_round([first_member, second_member, third_member], generation)
    assert {m.hooks.joins[-1].protocol for m in (first_member, second_member, third_member)} == {"default"}
    assert first_member.hooks.joins[-1].assignment.version == 0


def test_broken_connection_is_reopened_without_rebalance(add_member: AddMember) -> None:
    members = add_members(add_member, 2)
    disconnected_member, other_member = members
    generation, old_id = other_member.hooks.generation, disconnected_member.group.member_id
    for _ in range(3):
        disconnected_member.break_connection()
        with pytest.raises(AssertionError):
            disconnected_member.hooks.wait(lambda hooks: hooks.generation > generation, 1.5)
    assert disconnected_member.group.member_id == old_id
    assert disconnected_member.hooks.loss_reasons == []
    wait_until_confirmed(disconnected_member)
    disconnected_member.request_rebalance()
    await_round(members, generation)
    assert disconnected_member.group.member_id == old_id


def test_rejoin_without_changes_causes_no_rebalance(add_member: AddMember) -> None:
    members = add_members(add_member, 2)
    follower = next(m for m in members if not m.is_leader)
    other_member = next(m for m in members if m is not follower)
    join_count, other_join_count = len(follower.hooks.joins), len(other_member.hooks.joins)
    follower.group.rejoin("nothing new")
    follower.hooks.wait(lambda hooks: len(hooks.joins) > join_count)
    assert follower.hooks.joins[-1].generation == follower.hooks.joins[-2].generation
    assert len(other_member.hooks.joins) == other_join_count
