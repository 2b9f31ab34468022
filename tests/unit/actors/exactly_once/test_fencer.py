"""The fencer processes requests concurrently."""

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
    both = threading.Barrier(2, timeout=20)
    heard: list[ProducersFenced] = []
    answered = threading.Event()

    class Herder:
        def receive(self, message: object) -> None:
            if not isinstance(message, Begin):
                assert isinstance(message, ProducersFenced)
                heard.append(message)
                if len(heard) == 2:
                    answered.set()

    def fence(ids: Sequence[str]) -> None:
        both.wait()
        if ids == ["b"]:
            raise StoreError("cannot fence b")

    system.spawn(herder, Herder, lambda _: None)
    system.spawn(fencer, lambda: Fencer(system=system, fence=fence), lambda _: None)
    for token, name in enumerate("ab"):
        fencer.tell(FenceProducers(token=token, transactional_ids=[name], reply_to=herder))
    assert answered.wait(30)
    ordered = sorted(heard, key=lambda each: each.token)
    assert [(each.token, str(each.error)) for each in ordered] == [(0, "None"), (1, "cannot fence b")]
    assert system.close(5) == []
