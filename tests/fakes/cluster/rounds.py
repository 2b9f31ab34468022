"""Checks the invariants of assignment rounds, for any assignor."""

from __future__ import annotations

from collections import Counter

from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round


def check_round(round_: Round, before: AssignorState, outcome: Outcome) -> None:
    """Raise AssertionError if a round violates an invariant."""
    reported_instances = Counter(instance for instances in round_.members.values() for instance in instances)
    assigned_instances = Counter(
        instance for instances in outcome.assigned.values() for instance in instances
    )
    assert not reported_instances.keys() & assigned_instances.keys(), "assigned a running instance"
    assert set(assigned_instances.values()) <= {1}, "assigned twice"
    assert assigned_instances.keys() <= round_.configured, "assigned an instance that is not configured"
    for member, instances in outcome.owned.items():
        revoked_instances = set(outcome.revoked[member])
        assert {*instances} == {*round_.members[member], *outcome.assigned[member]} - revoked_instances
        unreported_instances = before.assigned - reported_instances.keys()
        assert revoked_instances <= {*round_.members[member], *unreported_instances}, (
            "revoked an instance that did not run"
        )
    owned_instances = Counter(instance for instances in outcome.owned.values() for instance in instances)
    assert set(owned_instances.values()) <= {1}, "an instance that ran twice was not revoked everywhere"
    assert 0 <= outcome.delay_ms <= round_.max_delay_ms
