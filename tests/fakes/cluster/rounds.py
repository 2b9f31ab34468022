"""Invariants of each assignment round, for any assignor."""

from __future__ import annotations

from collections import Counter

from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round


def check_round(round_: Round, before: AssignorState, outcome: Outcome) -> None:
    """Raise AssertionError if a round violates an invariant."""
    reported = Counter(job for jobs in round_.members.values() for job in jobs)
    assigned = Counter(job for jobs in outcome.assigned.values() for job in jobs)
    assert not reported.keys() & assigned.keys(), "assigned a running job"
    assert set(assigned.values()) <= {1}, "assigned twice"
    assert assigned.keys() <= round_.configured, "assigned a job that is not configured"
    for member, jobs in outcome.owned.items():
        revoked_jobs = set(outcome.revoked[member])
        assert {*jobs} == {*round_.members[member], *outcome.assigned[member]} - revoked_jobs
        unreported = before.assigned - reported.keys()
        assert revoked_jobs <= {*round_.members[member], *unreported}, "revoked a job that did not run"
    owned = Counter(job for jobs in outcome.owned.values() for job in jobs)
    assert set(owned.values()) <= {1}, "a job that ran twice was not revoked everywhere"
    assert 0 <= outcome.delay_ms <= round_.max_delay_ms
