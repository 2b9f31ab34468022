"""Properties of static assignment in random histories of joins, leaves, lists, lost assignments and config changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from kraal.cluster.assignment.incremental import assign_incrementally
from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round
from kraal.cluster.assignment.static import assign_statically, static_jobs
from kraal.core.ids import ConnectorName
from kraal.protocol.group import CONNECTOR, Job
from tests.fakes.cluster.rounds import check_round
from tests.fakes.cluster.static_story import StaticScenario, count_jobs

MAX_ROUNDS = 7
"""Maximum number of rounds with changes: a lost assignment, the end of a delay, and moves in two rounds."""

universe = [Job(ConnectorName(f"c{n}"), task) for n in range(4) for task in range(CONNECTOR, 4)]
lists = st.frozensets(st.sampled_from(universe), max_size=8)
some_lists = lists | st.just(frozenset[Job]())
events = st.one_of(
    st.tuples(st.just("join"), some_lists),
    st.tuples(st.just("leave"), st.integers(0, 9)),
    st.tuples(st.just("return"), st.tuples(st.integers(0, 9), some_lists)),
    st.tuples(st.just("configure"), st.tuples(st.integers(0, 3), st.integers(0, 4))),
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.integers(0, 400_000)),
    st.tuples(st.just("settle"), st.just(0)),
    st.tuples(st.just("downgrade"), st.just(0)),
    st.tuples(st.just("upgrade"), st.just(0)),
)
deaf = st.frozensets(st.integers(0, 4), max_size=3)
histories = st.lists(st.tuples(st.lists(events, max_size=3), deaf), max_size=12)
max_delays = st.sampled_from([0, 1, 1_000, 300_000])


class Group(StaticScenario):
    """A scenario that checks each round, and whose leader, the first member by id, may be replaced."""

    born = 0
    leader_heard = True

    def happen(self, what: str, how: object) -> None:
        match what, how:
            case "join", frozenset():
                self.enter(how)
            case "leave", int():
                self.lose(how)
            case "return", (int() as number, frozenset() as listed):
                if self.lose(
                    number
                ):  # returns before the loss was detected, with a new member id and no work
                    self.enter(listed)
            case "configure", (int() as number, int() as tasks):
                self.connectors[f"c{number}"] = tasks
            case "delete", _:
                self.connectors.pop(f"c{how}", None)
            case "wait", int():
                self.now_ms += how
            case "downgrade", _:
                self.assign = assign_incrementally
            case "upgrade", _:
                self.assign = assign_statically
            case _:
                self.settle(MAX_ROUNDS + 1)

    def enter(self, listed: frozenset[Job]) -> None:
        self.born += 1
        name = f"w{self.born:02}"
        self.workers[name] = []
        if listed:
            self.lists[name] = listed

    def lose(self, number: int) -> bool:
        if len(self.workers) < 2:
            return False
        name = sorted(self.workers)[number % len(self.workers)]
        if name == min(self.workers):
            self.state, self.leader_heard = AssignorState(), True
        self.leave(name)
        return True

    @override
    def rebalance(self, *, after_ms: int = 0, deaf: object = ()) -> Outcome:
        told = replace(
            self.round(),
            members={name: tuple(jobs) for name, jobs in self.workers.items()},
            generation=self.generation + 1,
            last_generation=self.generation if self.leader_heard else self.generation - 1,
        )
        static = self.assign is assign_statically
        numbers = deaf if isinstance(deaf, frozenset) else frozenset()
        names = [name for number, name in enumerate(sorted(self.workers)) if number in numbers]
        self.now_ms += after_ms
        self.generation += 1
        self.outcome = self.assign(told, self.state)
        check_round(told, self.state, self.outcome)
        if static:
            check_placements(told, self.outcome)
        self.state = self.outcome.state
        self.leader_heard = min(self.workers) not in names
        for name, running in self.workers.items():
            if name not in names:
                kept = [each for each in running if each not in self.outcome.revoked[name]]
                self.workers[name] = [*self.outcome.assigned[name], *kept]
        return self.outcome


def check_placements(told: Round, outcome: Outcome) -> None:
    """Check that static jobs are assigned to listers, wildcard jobs to wildcard workers, without needless moves."""
    static = static_jobs(told)
    reported = Counter(job for jobs in told.members.values() for job in jobs)
    wildcard = told.members.keys() - told.lists.keys()
    for member in told.members:
        listed = told.lists.get(member)
        assigned, revoked = set(outcome.assigned[member]), set(outcome.revoked[member])
        misplaced = {
            job for job in told.members[member] if (job in static if listed is None else job not in listed)
        }
        assert assigned <= (told.configured - static if listed is None else listed), (
            "a job is assigned to a worker that must not run it"
        )
        assert misplaced <= revoked, "a job remains on a worker that must not run it"
        owed = misplaced | {job for job in revoked if job not in told.configured or reported[job] > 1}
        moved = revoked - owed
        if listed is not None:
            assert not moved, "revoked a listed job from a worker that lists it"
        elif moved:
            assert not outcome.delay_ms, "revoked jobs to balance load during a delay"
            check_fair_share(told.configured - static, moved, outcome.owned[member], len(wildcard))
    free = static - reported.keys()
    assert free <= {job for jobs in outcome.assigned.values() for job in jobs}, (
        "a static job waits although a worker lists it"
    )


def check_fair_share(jobs: frozenset[Job], moved: set[Job], kept: tuple[Job, ...], members: int) -> None:
    """Check that no member with a balancing revocation is below its fair share."""
    for taken, holds, total in zip(count_jobs(moved), count_jobs(kept), count_jobs(jobs), strict=True):
        assert not taken or holds >= total // members, (
            "revoked so many jobs that a member is below its fair share"
        )


def check_settled(group: Group) -> None:
    """Check the properties of a stable group."""
    told = group.round()
    static = static_jobs(told) if group.assign is assign_statically else frozenset[Job]()
    lists_ = told.lists if group.assign is assign_statically else {}
    wildcard = {name: jobs for name, jobs in group.workers.items() if name not in lists_}
    for name, listed in lists_.items():
        assert {*group.workers[name]} <= listed
    expected = group.configured if wildcard else static
    assert group.running() == Counter(expected), "a job is missing, duplicated or deleted"
    loads = [count_jobs(jobs) for jobs in wildcard.values()]
    for kind in range(2):
        sizes = [load[kind] for load in loads] or [0]
        assert max(sizes) - min(sizes) <= 1, "the load of wildcard workers is not balanced"


def create_group(max_delay_ms: int) -> Group:
    return Group(connectors={}, max_delay_ms=max_delay_ms, workers={"w00": []})


History = list[tuple[list[tuple[str, object]], frozenset[int]]]


@settings(max_examples=150)
@given(max_delays, histories, some_lists)
def test_random_history_ends_with_every_job_placed_correctly(
    max_delay_ms: int, history: History, listed: frozenset[Job]
) -> None:
    group = create_group(max_delay_ms)
    if listed:
        group.lists["w00"] = listed
    for happenings, unheard in history:
        for event in happenings:
            group.happen(*event)
        group.rebalance(deaf=unheard)
        assert set(group.running().values()) <= {1}, "a job runs twice"
    group.settle(MAX_ROUNDS + 1)
    check_settled(group)


@settings(max_examples=60)
@given(max_delays, histories, st.integers(0, 9), some_lists)
def test_worker_returning_with_old_work_converges(
    max_delay_ms: int, history: History, number: int, listed: frozenset[Job]
) -> None:
    """A disconnected worker returns unaware that its work was reassigned, so jobs run twice for one round."""
    group = create_group(max_delay_ms)
    group.connectors = {"c0": 3, "c1": 2}
    group.enter(listed)
    group.settle()
    name = sorted(group.workers)[number % 2]
    stale = list(group.workers[name])
    group.lose(number)
    for happenings, unheard in history:
        for event in happenings:
            group.happen(*event)
        group.rebalance(deaf=unheard)
    group.enter(listed)
    group.workers[max(group.workers)] = stale
    group.rebalance()
    assert set(group.running().values()) <= {1}, "a job runs twice after the round with revocations"
    group.settle(MAX_ROUNDS + 1)
    check_settled(group)


@settings(max_examples=150)
@given(max_delays, histories)
def test_group_without_static_workers_equals_the_sessioned_protocol(
    max_delay_ms: int, history: History
) -> None:
    static, sessioned = create_group(max_delay_ms), create_group(max_delay_ms)
    sessioned.assign = assign_incrementally
    for happenings, unheard in history:
        for what, how in happenings:
            if what in {"downgrade", "upgrade", "settle"}:
                continue
            for group in (static, sessioned):
                group.happen(what, without_lists(how))
        assert static.rebalance(deaf=unheard) == sessioned.rebalance(deaf=unheard)
        assert static.workers == sessioned.workers


A_STATIC_WORKER_MISSES_A_REVOCATION: History = [
    ([("join", frozenset()), ("configure", (0, 0)), ("configure", (2, 0))], frozenset()),
    ([("leave", 1), ("configure", (1, 0))], frozenset({2})),
    ([], frozenset()),
]


@settings(max_examples=100)
@given(max_delays, histories)
@example(1, A_STATIC_WORKER_MISSES_A_REVOCATION)
def test_wildcard_work_equals_a_sessioned_group_of_wildcard_workers(
    max_delay_ms: int, history: History
) -> None:
    """Steps 7 and 8 are the incremental algorithm, unaffected by static workers with static jobs."""
    both, alone = create_group(max_delay_ms), create_group(max_delay_ms)
    alone.assign = assign_incrementally
    apart = ConnectorName("apart")
    for name, listed in (
        ("z0", {Job(apart), Job(apart, 0)}),
        ("z1", {Job(apart, 0), Job(apart, 1), Job(apart, 2)}),
    ):
        both.workers[name] = []
        both.lists[name] = frozenset(listed)
    for happenings, unheard in history:
        for what, how in happenings:
            if what in {"leave", "return"}:
                number = how if isinstance(how, int) else how[0] if isinstance(how, tuple) else 0
                name = sorted(alone.workers)[number % len(alone.workers)]
                assert alone.lose(number) == (name not in alone.workers)
                if name not in alone.workers:
                    both.lose(sorted(both.workers).index(name))
            if what in {"join", "return"}:
                for group in (both, alone):
                    group.enter(frozenset())
            if what in {"configure", "delete", "wait"}:
                for group in (both, alone):
                    group.happen(what, how)
        both.connectors["apart"] = len(both.connectors) % 4
        here, there = both.rebalance(deaf=unheard), alone.rebalance(deaf=unheard)
        assert here.delay_ms == there.delay_ms
        for name in alone.workers:
            assert (here.assigned[name], here.revoked[name]) == (there.assigned[name], there.revoked[name])


def without_lists(how: object) -> object:
    """Return an event without lists."""
    if isinstance(how, frozenset):
        return frozenset[Job]()
    if isinstance(how, tuple) and isinstance(how[1], frozenset):
        return how[0], frozenset[Job]()
    return how


@settings(max_examples=60)
@given(max_delays, histories)
def test_assignment_is_deterministic(max_delay_ms: int, history: History) -> None:
    one, other = create_group(max_delay_ms), create_group(max_delay_ms)
    for happenings, unheard in history:
        for event in happenings:
            if event[0] != "settle":
                one.happen(*event)
                other.happen(*event)
        other.workers = dict(
            reversed(other.workers.items())
        )  # the assignment must not depend on the order of members
        other.lists = dict(reversed(other.lists.items()))
        assert one.rebalance(deaf=unheard) == other.rebalance(deaf=unheard)
