"""Tests that the fencer processes requests concurrently."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from actors.exactly_once.fencer import Fencer
from actors.messages.fencer import FenceProducers, ProducersFenced
from actors.runtime.mailbox import Address
from actors.runtime.system import Begin, ThreadSystem
from kraal.core.errors import StoreError


def test_requests_are_processed_concurrently() -> None:
    system, herder, fencer = ThreadSystem(), Address("herder"), Address("fencer")
    barrier = threading.Barrier(2, timeout=20)
    results: list[ProducersFenced] = []
    received_all = threading.Event()

    class Herder:
        def receive(self, message: object) -> None:
            if not isinstance(message, Begin):
                assert isinstance(message, ProducersFenced)
                results.append(message)
                if len(results) == 2:
                    received_all.set()

    def fence(ids: Sequence[str]) -> None:
        barrier.wait()
        if ids == ["b"]:
            raise StoreError("cannot fence b")

    system.spawn(herder, Herder, lambda _: None)
    system.spawn(fencer, lambda: Fencer(system=system, fence=fence), lambda _: None)
    for token, name in enumerate("ab"):
        fencer.tell(FenceProducers(token=token, transactional_ids=[name], reply_to=herder))
    assert received_all.wait(30)
    sorted_results = sorted(results, key=lambda result: result.token)
    assert [(result.token, str(result.error)) for result in sorted_results] == [
        (0, "None"),
        (1, "cannot fence b"),
    ]
    assert system.close(5) == []
