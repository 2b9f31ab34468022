"""Checks the invariants of assignment rounds, for any assignor."""

from __future__ import annotations

from collections import Counter

from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round


def check_round(round_: Round, before: AssignorState, outcome: Outcome) -> None:
    """Raise AssertionError if a round violates an invariant."""
    reported_jobs = Counter(job for jobs in round_.members.values() for job in jobs)
    assigned_jobs = Counter(job for jobs in outcome.assigned.values() for job in jobs)
    assert not reported_jobs.keys() & assigned_jobs.keys(), "assigned a running job"
    assert set(assigned_jobs.values()) <= {1}, "assigned twice"
    assert assigned_jobs.keys() <= round_.configured, "assigned a job that is not configured"
    for member, jobs in outcome.owned.items():
        revoked_jobs = set(outcome.revoked[member])
        assert {*jobs} == {*round_.members[member], *outcome.assigned[member]} - revoked_jobs
        unreported_jobs = before.assigned - reported_jobs.keys()
        assert revoked_jobs <= {*round_.members[member], *unreported_jobs}, "revoked a job that did not run"
    owned_jobs = Counter(job for jobs in outcome.owned.values() for job in jobs)
    assert set(owned_jobs.values()) <= {1}, "a job that ran twice was not revoked everywhere"
    assert 0 <= outcome.delay_ms <= round_.max_delay_ms
