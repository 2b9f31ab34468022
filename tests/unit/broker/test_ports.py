"""Free ports: of two that are asked for one after the other, none is the other, and none is in use."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraal.broker.broker import HOST, Broker, free_port
from kraal.jars.errors import BrokerError

FIRST, SECOND, LAST = 31_001, 31_002, 31_003


class Same:
    """Chooses the same ports each time."""

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        """Return ports, of those that may be chosen."""
        assert {FIRST, SECOND, LAST} <= set(population)
        assert k
        return [FIRST, SECOND, LAST]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each choice be the same ports in the same order, none of which has been returned."""
    monkeypatch.setattr("kraal.broker.broker.random.SystemRandom", Same)
    monkeypatch.setattr("kraal.broker.broker._returned", set())


@pytest.mark.usefixtures("chosen")
def test_a_port_is_returned_once() -> None:
    assert [free_port() for _ in range(3)] == [FIRST, SECOND, LAST]
    with pytest.raises(
        BrokerError, match=r"No free port was found on .* from 10000 to 32767; end what uses them"
    ):
        free_port()


@pytest.mark.usefixtures("chosen")
def test_a_port_in_use_is_not_returned() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, FIRST))
        assert free_port() == SECOND
    assert free_port() == FIRST


def test_ports_are_outside_the_ephemeral_range() -> None:
    ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(ephemeral.read_text().split()[0]) if ephemeral.exists() else 49_152
    assert all(free_port() < first for _ in range(50))


@pytest.mark.usefixtures("chosen")
def test_the_controller_s_port_is_not_the_broker_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ports: list[tuple[int, int]] = []

    def noted(*_: object, port: int, controller_port: int, **__: object) -> None:
        ports.append((port, controller_port))
        raise BrokerError("enough")

    monkeypatch.setattr("kraal.broker.broker.server_properties", noted)
    with pytest.raises(BrokerError, match="enough"):
        Broker(tmp_path, FIRST).start()
    assert ports == [(FIRST, SECOND)]
