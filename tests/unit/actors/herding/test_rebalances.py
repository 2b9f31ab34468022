"""Tests that the loss of the group is recorded once, even if joins repeatedly fail for the same reason."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from actors.herding.rebalances import Rebalances


class WorkStub:
    """A stub of `Work` for a worker without an assignment."""

    assignment = None

    def assign(self, _: object) -> set[str]:
        return set()

    def resume(self, _: object) -> set[str]:
        return set()

    def apply(self, _: object) -> None:
        pass


class StateStub:
    """A stub of the herder's state with the parts that `Rebalances` uses."""

    def __init__(self) -> None:
        self.loss_reasons: list[str] = []
        self.leader_urls: list[object] = []
        self.history = SimpleNamespace(
            record_group_loss=self.loss_reasons.append, record_rebalance=lambda _: None
        )
        self.work = WorkStub()
        self.ledger = SimpleNamespace(on_assigned=lambda _: None)
        self.snapshot = SimpleNamespace(rebalances=())
        self.settings = SimpleNamespace(standalone=True)

    def update(self, *, leader_url: object, **_: object) -> None:
        self.leader_urls.append(leader_url)


def assignment() -> Any:
    return SimpleNamespace(
        assignment=None,
        config_offset=1,
        plan=None,
        generation=1,
        leader_url="http://w/",
        is_leader=True,
        protocol="p",
    )


def test_repeated_group_loss_is_recorded_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state: Any = StateStub()
    membership: Any = SimpleNamespace()
    rebalances = Rebalances(state, membership)
    with caplog.at_level(logging.WARNING):
        for reason in ("refused", "refused", "unknown", "unknown"):
            rebalances.on_group_lost(reason)
        assert state.loss_reasons == ["refused", "unknown"]
        rebalances.on_assigned(assignment(), is_first=False)
        rebalances.on_group_lost("unknown")
    assert state.loss_reasons == ["refused", "unknown", "unknown"]
    assert len(caplog.records) == 3
    assert state.leader_urls == [None] * 4 + ["http://w/", None], "after each loss, the leader is unknown"
