"""KafkaGroup and a broker that is not there, goes, hangs and comes back: a broker of this test's own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from kraal.broker.broker import Broker, free_port
from tests.fakes.kafka.kafka_member import KafkaMember, await_round, close_all

pytestmark = pytest.mark.ci


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that is not started."""
    made = Broker(tmp_path_factory.mktemp("group-away"), free_port())
    yield made
    made.stop()


def test_members_survive_what_happens_to_their_broker(broker: Broker) -> None:
    members = [KafkaMember(broker.bootstrap, "cluster", f"w{n}") for n in (1, 2)]
    try:
        _away_at_the_start(members)
        broker.start()
        generation = await_round(members, 0, within_s=60)
        if len({m.hooks.joins[-1].assignment.leader for m in members}) > 1:
            generation = await_round(members, generation)
        ids = [m.group.member_id for m in members]
        generation = _restarted(broker, members, generation)
        assert [m.group.member_id for m in members] == ids
        _hanging(broker, members, generation)
    finally:
        close_all(members)


def _away_at_the_start(members: list[KafkaMember]) -> None:
    for member in members:
        member.hooks.wait(lambda hooks: len(hooks.lost_for) == 1, 10)
        assert member.hooks.joins == []


def _restarted(broker: Broker, members: list[KafkaMember], generation: int) -> int:
    """The loss is reported after `heartbeat.interval.ms`; then everybody is asked, and joins under its id."""
    broker.stop()
    for member in members:
        member.hooks.wait(lambda hooks: len(hooks.lost_for) == 2, 15)
    broker.start()
    began_s = time.monotonic()
    generation = await_round(members, generation, within_s=30)
    print(f"back in the group {time.monotonic() - began_s:.1f} s after the broker's return")  # noqa: T201
    return generation


def _hanging(broker: Broker, members: list[KafkaMember], generation: int) -> None:
    """A broker that neither answers nor closes its connections is given up after a session timeout."""
    pid = broker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        for member in members:
            member.hooks.wait(lambda hooks: len(hooks.lost_for) == 3, 6 + 2 + 15)
            assert member.group.heartbeat_age_s() > 6
    finally:
        os.kill(pid, signal.SIGCONT)
    await_round(members, generation, within_s=60)
