"""What holds of each round of assignment, whoever assigns."""

from __future__ import annotations

from collections import Counter

from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round


def check_round(told: Round, before: AssignorState, outcome: Outcome) -> None:
    """Raise AssertionError for a round that breaks a rule."""
    reported = Counter(job for jobs in told.members.values() for job in jobs)
    assigned = Counter(job for jobs in outcome.assigned.values() for job in jobs)
    assert not reported.keys() & assigned.keys(), "assigned what runs already"
    assert set(assigned.values()) <= {1}, "assigned twice"
    assert assigned.keys() <= told.configured, "assigned what is not configured"
    for member, jobs in outcome.owned.items():
        gone = set(outcome.revoked[member])
        assert {*jobs} == {*told.members[member], *outcome.assigned[member]} - gone
        given_now = before.assigned - reported.keys()
        assert gone <= {*told.members[member], *given_now}, "revoked what was never there"
    owned = Counter(job for jobs in outcome.owned.values() for job in jobs)
    assert set(owned.values()) <= {1}, "what ran twice was not stopped everywhere"
    assert 0 <= outcome.delay_ms <= told.max_delay_ms
