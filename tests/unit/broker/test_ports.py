"""Tests that `free_port` returns only unused ports, and each port only once."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from kraal.broker.broker import HOST, Broker, free_port
from kraal.jars.errors import BrokerError

FIRST, SECOND, LAST = 31_001, 31_002, 31_003


class FixedChoice:
    """A random source that chooses the same ports each time."""

    def sample(self, population: Sequence[int], k: int) -> list[int]:
        """Return FIRST, SECOND and LAST."""
        assert {FIRST, SECOND, LAST} <= set(population)
        assert k
        return [FIRST, SECOND, LAST]


@pytest.fixture
def _fixed_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each choice return the same ports in the same order, and clear the set of returned ports."""
    monkeypatch.setattr("kraal.broker.broker.random.SystemRandom", FixedChoice)
    monkeypatch.setattr("kraal.broker.broker._returned_ports", set())


@pytest.mark.usefixtures("_fixed_choice")
def test_port_is_returned_once() -> None:
    assert [free_port() for _ in range(3)] == [FIRST, SECOND, LAST]
    with pytest.raises(
        BrokerError,
        match=r"No free port was found on .* from 10000 to 32767; stop processes that use these ports",
    ):
        free_port()


@pytest.mark.usefixtures("_fixed_choice")
def test_port_in_use_is_not_returned() -> None:
    with socket.socket() as occupant:
        occupant.bind((HOST, FIRST))
        assert free_port() == SECOND
    assert free_port() == FIRST


def test_ports_are_outside_the_ephemeral_range() -> None:
    range_file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(range_file.read_text().split()[0]) if range_file.exists() else 49_152
    assert all(free_port() < first for _ in range(50))


@pytest.mark.usefixtures("_fixed_choice")
def test_controller_port_differs_from_broker_port(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ports: list[tuple[int, int]] = []

    def record_ports(*_: object, port: int, controller_port: int, **__: object) -> None:
        ports.append((port, controller_port))
        raise BrokerError("enough")

    monkeypatch.setattr("kraal.broker.broker.server_properties", record_ports)
    with pytest.raises(BrokerError, match="enough"):
        Broker(tmp_path, FIRST).start()
    assert ports == [(FIRST, SECOND)]
