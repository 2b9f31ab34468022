"""Properties of incremental assignment in random histories of joins, leaves, lost assignments and config changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.cluster.assignment.incremental import assign_incrementally
from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round
from kraal.core.ids import ConnectorName
from kraal.protocol.group import CONNECTOR, Job
from tests.fakes.cluster.rounds import check_round

MAX_ROUNDS = 5
"""Maximum number of rounds until the group is stable."""

Kind = Callable[[Job], bool]


def is_connector(job: Job) -> bool:
    return job.task == CONNECTOR


def is_task(job: Job) -> bool:
    return job.task != CONNECTOR


def size(jobs: Iterable[Job], kind: Kind) -> int:
    return sum(map(kind, jobs))


@dataclass
class Group:
    """Workers that apply assignments, and a leader whose assignments may get lost."""

    max_delay_ms: int
    workers: dict[str, list[Job]] = field(default_factory=lambda: {"w00": []})
    connectors: dict[ConnectorName, int] = field(default_factory=dict)
    state: AssignorState = field(default_factory=AssignorState)
    leader: str = "w00"
    leader_heard: int = 0
    generation: int = 0
    now_ms: int = 1_000
    born: int = 0

    @property
    def configured(self) -> frozenset[Job]:
        return frozenset(
            Job(name, task) for name, tasks in self.connectors.items() for task in range(CONNECTOR, tasks)
        )

    def running(self) -> Counter[Job]:
        return Counter(job for jobs in self.workers.values() for job in jobs)

    def join(self, running: Iterable[Job] = ()) -> None:
        self.born += 1
        self.workers[f"w{self.born:02}"] = list(running)

    def leave(self, number: int) -> list[Job]:
        """Lose a worker unless it is the last one; a new leader starts without state."""
        if len(self.workers) == 1:
            return []
        name = sorted(self.workers)[number % len(self.workers)]
        jobs = self.workers.pop(name)
        if name == self.leader:
            self.leader, self.state, self.leader_heard = min(self.workers), AssignorState(), -1
        return jobs

    def rebalance(self, deaf: frozenset[int] = frozenset()) -> Outcome:
        """Run one round whose assignments do not reach the workers in `deaf`."""
        self.generation += 1
        told = Round(
            members={name: tuple(jobs) for name, jobs in self.workers.items()},
            configured=self.configured,
            last_generation=self.leader_heard,
            generation=self.generation,
            now_ms=self.now_ms,
            max_delay_ms=self.max_delay_ms,
        )
        before = self.state
        outcome = assign_incrementally(told, before)
        check_round(told, before, outcome)
        check_revocations(told, outcome)
        self.state = outcome.state
        for number, name in enumerate(sorted(self.workers)):
            if number in deaf:
                continue
            if name == self.leader:
                self.leader_heard = self.generation
            kept = [job for job in self.workers[name] if job not in outcome.revoked[name]]
            self.workers[name] = [*outcome.assigned[name], *kept]
        return outcome

    def converge(self) -> int:
        """Run rounds until two consecutive rounds change nothing; return the number of rounds with changes.

        Two rounds are required because a new leader learns only from its first round which jobs should run.
        """
        rounds, quiet = 0, 0
        while quiet < 2:
            outcome = self.rebalance()
            self.now_ms += outcome.delay_ms
            moved = any(outcome.assigned.values()) or any(outcome.revoked.values())
            quiet = 0 if moved or outcome.delay_ms else quiet + 1
            rounds += not quiet
            assert rounds <= MAX_ROUNDS
        return rounds


def check_revocations(told: Round, outcome: Outcome) -> None:
    """Check that only deleted, duplicate or excess jobs are revoked, the latter only without a delay."""
    reported = Counter(job for jobs in told.members.values() for job in jobs)
    for member, jobs in outcome.revoked.items():
        surplus = [job for job in jobs if job in told.configured and reported[job] <= 1]
        assert not (surplus and outcome.delay_ms), "revoked jobs to balance load during a delay"
        for kind in (is_connector, is_task):
            share = size(told.configured, kind) // len(told.members)
            if size(surplus, kind):
                assert size(outcome.owned[member], kind) >= share, (
                    "revoked so many jobs that a member is below its fair share"
                )


def check_converged(group: Group) -> None:
    """Check that a stable group runs all jobs once and balanced."""
    assert group.running() == Counter(group.configured), "a job is lost, duplicated or deleted"
    for kind in (is_connector, is_task):
        sizes = [size(jobs, kind) for jobs in group.workers.values()]
        assert max(sizes) - min(sizes) <= 1, "the load is not balanced"


events = st.one_of(
    st.tuples(st.just("join"), st.just(0)),
    st.tuples(st.just("leave"), st.integers(0, 9)),
    st.tuples(st.just("bounce"), st.integers(0, 9)),
    st.tuples(st.just("configure"), st.integers(0, 30)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("wait"), st.integers(0, 400_000)),
    st.tuples(st.just("converge"), st.just(0)),
)
deaf = st.frozensets(st.integers(0, 4), max_size=3)
histories = st.lists(st.tuples(st.lists(events, max_size=3), deaf), max_size=12)
max_delays = st.sampled_from([0, 1, 1_000, 300_000])


def apply_event(group: Group, event: tuple[str, int]) -> None:
    what, number = event
    match what:
        case "join":
            group.join()
        case "leave":
            group.leave(number)
        case "bounce":  # back before the loss was detected, with a new member id and no work
            if group.leave(number):
                group.join()
        case "configure":  # a new connector, or other tasks of an existing one
            group.connectors[ConnectorName(f"c{number % 6}")] = number // 4
        case "delete":
            group.connectors.pop(ConnectorName(f"c{number % 6}"), None)
        case "wait":
            group.now_ms += number
        case _:
            group.converge()


@settings(max_examples=80)
@given(max_delays, histories)
def test_random_history_ends_balanced_without_duplicates(
    max_delay_ms: int, history: list[tuple[list[tuple[str, int]], frozenset[int]]]
) -> None:
    group = Group(max_delay_ms=max_delay_ms)
    for happenings, unheard in history:
        for event in happenings:
            apply_event(group, event)
        group.rebalance(unheard)
        assert set(group.running().values()) <= {1}, "a job runs twice"
    group.converge()
    check_converged(group)


@settings(max_examples=40)
@given(max_delays, histories, st.integers(0, 9))
def test_worker_returning_with_old_work_converges(
    max_delay_ms: int, history: list[tuple[list[tuple[str, int]], frozenset[int]]], number: int
) -> None:
    """A disconnected worker returns unaware that its work was reassigned, so jobs run twice for one round."""
    group = Group(max_delay_ms=max_delay_ms, connectors={ConnectorName("c0"): 5, ConnectorName("c1"): 3})
    group.join()
    group.converge()
    stale = group.leave(number)
    for happenings, unheard in history:
        for event in happenings:
            apply_event(group, event)
        group.rebalance(unheard)
    group.join(stale)
    group.rebalance()
    assert set(group.running().values()) <= {1}, "a job runs twice after the round with revocations"
    group.converge()
    check_converged(group)


@settings(max_examples=40)
@given(
    max_delays,
    st.dictionaries(st.integers(0, 9).map(lambda n: ConnectorName(f"c{n}")), st.integers(0, 9)),
    st.integers(1, 6),
)
def test_balanced_work_does_not_move_with_any_leader(
    max_delay_ms: int, connectors: dict[ConnectorName, int], workers: int
) -> None:
    group = Group(max_delay_ms=max_delay_ms, connectors=connectors)
    for _ in range(workers - 1):
        group.join()
    assert group.converge() <= 1
    before = {name: list(jobs) for name, jobs in group.workers.items()}
    group.state = AssignorState()  # another worker becomes the leader
    outcome = group.rebalance()
    assert (group.workers, outcome.delay_ms) == (before, 0)


@settings(max_examples=40)
@given(histories)
def test_assignment_is_deterministic(
    history: list[tuple[list[tuple[str, int]], frozenset[int]]],
) -> None:
    one, other = Group(max_delay_ms=1_000), Group(max_delay_ms=1_000)
    for happenings, unheard in history:
        for group in (one, other):
            for event in happenings:
                apply_event(group, event)
        other.workers = dict(
            reversed(other.workers.items())
        )  # the assignment must not depend on the order of members
        assert one.rebalance(unheard) == other.rebalance(unheard)
