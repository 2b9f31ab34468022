"""Tests for KafkaGroup while its broker is unavailable, restarts and hangs."""

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
    """Define a broker without starting it."""
    broker = Broker(tmp_path_factory.mktemp("group-away"), free_port())
    yield broker
    broker.stop()


def test_members_rejoin_after_broker_outages(broker: Broker) -> None:
    members = [KafkaMember(broker.bootstrap, "cluster", f"w{n}") for n in (1, 2)]
    try:
        _check_unavailable_at_startup(members)
        broker.start()
        generation = await_round(members, 0, within_s=60)
        if len({m.hooks.joins[-1].assignment.leader for m in members}) > 1:
            generation = await_round(members, generation)
        ids = [m.group.member_id for m in members]
        generation = _check_restart(broker, members, generation)
        assert [m.group.member_id for m in members] == ids
        _check_hang(broker, members, generation)
    finally:
        close_all(members)


def _check_unavailable_at_startup(members: list[KafkaMember]) -> None:
    for member in members:
        member.hooks.wait(lambda hooks: len(hooks.loss_reasons) == 1, 10)
        assert member.hooks.joins == []


def _check_restart(broker: Broker, members: list[KafkaMember], generation: int) -> int:
    """Check that members report the loss after `heartbeat.interval.ms`, and then rejoin with their ids."""
    broker.stop()
    for member in members:
        member.hooks.wait(lambda hooks: len(hooks.loss_reasons) == 2, 15)
    broker.start()
    start_s = time.monotonic()
    generation = await_round(members, generation, within_s=30)
    print(f"back in the group {time.monotonic() - start_s:.1f} s after the broker's return")  # noqa: T201
    return generation


def _check_hang(broker: Broker, members: list[KafkaMember], generation: int) -> None:
    """Check that members disconnect from an unresponsive broker after a session timeout."""
    pid = broker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        for member in members:
            member.hooks.wait(lambda hooks: len(hooks.loss_reasons) == 3, 6 + 2 + 15)
            assert member.group.heartbeat_age_s() > 6
    finally:
        os.kill(pid, signal.SIGCONT)
    await_round(members, generation, within_s=60)
