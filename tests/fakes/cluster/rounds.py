"""What holds of each round of assignment, whoever assigns."""

from __future__ import annotations

from collections import Counter

from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round


def check_round(round_: Round, before: AssignorState, outcome: Outcome) -> None:
    """Raise AssertionError for a round that breaks a rule."""
    reported = Counter(job for jobs in round_.members.values() for job in jobs)
    assigned = Counter(job for jobs in outcome.assigned.values() for job in jobs)
    assert not reported.keys() & assigned.keys(), "assigned what runs already"
    assert set(assigned.values()) <= {1}, "assigned twice"
    assert assigned.keys() <= round_.configured, "assigned what is not configured"
    for member, jobs in outcome.owned.items():
        gone = set(outcome.revoked[member])
        assert {*jobs} == {*round_.members[member], *outcome.assigned[member]} - gone
        given_now = before.assigned - reported.keys()
        assert gone <= {*round_.members[member], *given_now}, "revoked what was never there"
    owned = Counter(job for jobs in outcome.owned.values() for job in jobs)
    assert set(owned.values()) <= {1}, "what ran twice was not stopped everywhere"
    assert 0 <= outcome.delay_ms <= round_.max_delay_ms
