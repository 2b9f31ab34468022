"""What holds of static assignment in any history of joins, leaves, lists, unheard answers and connector changes."""

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
from tests.fakes.cluster.static_story import StaticStory, counts

MAX_ROUNDS = 7
"""So many rounds that change something, at most: an unheard answer, the end of a delay, moves in two rounds each."""

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


class Group(StaticStory):
    """A story that checks each of its rounds, and whose leader, always the first by id, may be replaced."""

    born = 0
    leader_heard = True

    def happen(self, what: str, how: object) -> None:
        match what, how:
            case "join", frozenset():
                self.enter(how)
            case "leave", int():
                self.lose(how)
            case "return", (int() as number, frozenset() as listed):
                if self.lose(number):  # back before anybody noticed, with a new member id and no work
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
            check_places(told, self.outcome)
        self.state = self.outcome.state
        self.leader_heard = min(self.workers) not in names
        for name, running in self.workers.items():
            if name not in names:
                kept = [each for each in running if each not in self.outcome.revoked[name]]
                self.workers[name] = [*self.outcome.assigned[name], *kept]
        return self.outcome


def check_places(told: Round, outcome: Outcome) -> None:
    """Static jobs are assigned where they are listed, wildcard jobs to wildcard workers; no move without a rule."""
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
            "assigned where it must not"
        )
        assert misplaced <= revoked, "left where it must not be"
        owed = misplaced | {job for job in revoked if job not in told.configured or reported[job] > 1}
        moved = revoked - owed
        if listed is not None:
            assert not moved, "took a listed job from who lists it"
        elif moved:
            assert not outcome.delay_ms, "balanced load although a delay is on"
            check_share(told.configured - static, moved, outcome.owned[member], len(wildcard))
    free = static - reported.keys()
    assert free <= {job for jobs in outcome.assigned.values() for job in jobs}, (
        "a static job waits for nothing"
    )


def check_share(jobs: frozenset[Job], moved: set[Job], kept: tuple[Job, ...], members: int) -> None:
    """No one who gave something up for balance is below the fair share now."""
    for taken, holds, total in zip(counts(moved), counts(kept), counts(jobs), strict=True):
        assert not taken or holds >= total // members, "revoked below the fair share"


def check_settled(group: Group) -> None:
    """What holds when nothing moves any more."""
    told = group.round()
    static = static_jobs(told) if group.assign is assign_statically else frozenset[Job]()
    lists_ = told.lists if group.assign is assign_statically else {}
    wildcard = {name: jobs for name, jobs in group.workers.items() if name not in lists_}
    for name, listed in lists_.items():
        assert {*group.workers[name]} <= listed
    expected = group.configured if wildcard else static
    assert group.running() == Counter(expected), "something is missing, or runs twice, or is deleted"
    loads = [counts(jobs) for jobs in wildcard.values()]
    for kind in range(2):
        sizes = [load[kind] for load in loads] or [0]
        assert max(sizes) - min(sizes) <= 1, "wildcard workers are out of balance"


def group_of(max_delay_ms: int) -> Group:
    return Group(connectors={}, max_delay_ms=max_delay_ms, workers={"w00": []})


History = list[tuple[list[tuple[str, object]], frozenset[int]]]


@settings(max_examples=150)
@given(max_delays, histories, some_lists)
def test_any_history_ends_with_every_job_in_its_place(
    max_delay_ms: int, history: History, listed: frozenset[Job]
) -> None:
    group = group_of(max_delay_ms)
    if listed:
        group.lists["w00"] = listed
    for happenings, unheard in history:
        for event in happenings:
            group.happen(*event)
        group.rebalance(deaf=unheard)
        assert set(group.running().values()) <= {1}, "something runs twice"
    group.settle(MAX_ROUNDS + 1)
    check_settled(group)


@settings(max_examples=60)
@given(max_delays, histories, st.integers(0, 9), some_lists)
def test_a_worker_that_comes_back_with_its_old_work_is_sorted_out(
    max_delay_ms: int, history: History, number: int, listed: frozenset[Job]
) -> None:
    """A worker was cut off, others took its work, and it did not notice: for one round things run twice."""
    group = group_of(max_delay_ms)
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
    assert set(group.running().values()) <= {1}, "something runs twice after the round that revokes"
    group.settle(MAX_ROUNDS + 1)
    check_settled(group)


@settings(max_examples=150)
@given(max_delays, histories)
def test_without_static_workers_it_is_the_sessioned_protocol_round_by_round(
    max_delay_ms: int, history: History
) -> None:
    static, sessioned = group_of(max_delay_ms), group_of(max_delay_ms)
    sessioned.assign = assign_incrementally
    for happenings, unheard in history:
        for what, how in happenings:
            if what in {"downgrade", "upgrade", "settle"}:
                continue
            for group in (static, sessioned):
                group.happen(what, _wildcard(how))
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
def test_wildcard_work_is_that_of_a_sessioned_group_of_the_wildcard_workers_alone(
    max_delay_ms: int, history: History
) -> None:
    """Steps 7 and 8 are the incremental algorithm: static workers with work of their own change nothing in it."""
    both, alone = group_of(max_delay_ms), group_of(max_delay_ms)
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


def _wildcard(how: object) -> object:
    """Take all lists out of an event."""
    if isinstance(how, frozenset):
        return frozenset[Job]()
    if isinstance(how, tuple) and isinstance(how[1], frozenset):
        return how[0], frozenset[Job]()
    return how


@settings(max_examples=60)
@given(max_delays, histories)
def test_the_assignment_depends_only_on_its_input(max_delay_ms: int, history: History) -> None:
    one, other = group_of(max_delay_ms), group_of(max_delay_ms)
    for happenings, unheard in history:
        for event in happenings:
            if event[0] != "settle":
                one.happen(*event)
                other.happen(*event)
        other.workers = dict(
            reversed(other.workers.items())
        )  # the order in which members are listed is nothing
        other.lists = dict(reversed(other.lists.items()))
        assert one.rebalance(deaf=unheard) == other.rebalance(deaf=unheard)
