"""Tests for static assignment in random histories of joins, leaves, lists, lost assignments and config changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from typing_extensions import override

from kraal.cluster.assignment.incremental import assign_incrementally
from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round
from kraal.cluster.assignment.static import assign_statically, find_static_instances
from kraal.core.ids import ConnectorName
from kraal.protocol.group import CONNECTOR, ConnectorOrTask
from tests.fakes.cluster.rounds import check_round
from tests.fakes.cluster.static_scenario import StaticScenario, count_connectors_and_tasks

MAX_ROUNDS = 7
"""Maximum number of rounds with changes, including a lost assignment, the end of a delay, and two-round moves."""

possible_instances = [
    ConnectorOrTask(ConnectorName(f"c{n}"), task) for n in range(4) for task in range(CONNECTOR, 4)
]
lists = st.frozensets(st.sampled_from(possible_instances), max_size=8)
possibly_empty_lists = lists | st.just(frozenset[ConnectorOrTask]())
events = st.one_of(
    st.tuples(st.just("join"), possibly_empty_lists),
    st.tuples(st.just("leave"), st.integers(0, 9)),
    st.tuples(st.just("return"), st.tuples(st.integers(0, 9), possibly_empty_lists)),
    st.tuples(st.just("configure"), st.tuples(st.integers(0, 3), st.integers(0, 4))),
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.integers(0, 400_000)),
    st.tuples(st.just("settle"), st.just(0)),
    st.tuples(st.just("downgrade"), st.just(0)),
    st.tuples(st.just("upgrade"), st.just(0)),
)
unreached_workers = st.frozensets(st.integers(0, 4), max_size=3)
histories = st.lists(st.tuples(st.lists(events, max_size=3), unreached_workers), max_size=12)
max_delays = st.sampled_from([0, 1, 1_000, 300_000])


class Group(StaticScenario):
    """A scenario that checks each round. The leader is the first member by ID and may be replaced."""

    join_count = 0
    leader_received_last_assignment = True

    def apply_event(self, kind: str, argument: object) -> None:
        match kind, argument:
            case "join", frozenset():
                self.join_worker(argument)
            case "leave", int():
                self.lose_worker(argument)
            case "return", (int() as number, frozenset() as static_list):
                # The worker returns before its loss is detected, with a new member ID and no work.
                if self.lose_worker(number):
                    self.join_worker(static_list)
            case "configure", (int() as number, int() as tasks):
                self.connectors[f"c{number}"] = tasks
            case "delete", _:
                self.connectors.pop(f"c{argument}", None)
            case "wait", int():
                self.now_ms += argument
            case "downgrade", _:
                self.assign = assign_incrementally
            case "upgrade", _:
                self.assign = assign_statically
            case _:
                self.settle(MAX_ROUNDS + 1)

    def join_worker(self, static_list: frozenset[ConnectorOrTask]) -> None:
        self.join_count += 1
        name = f"w{self.join_count:02}"
        self.workers[name] = []
        if static_list:
            self.lists[name] = static_list

    def lose_worker(self, number: int) -> bool:
        if len(self.workers) < 2:
            return False
        name = sorted(self.workers)[number % len(self.workers)]
        if name == min(self.workers):
            self.state, self.leader_received_last_assignment = AssignorState(), True
        self.leave(name)
        return True

    @override
    def rebalance(self, *, after_ms: int = 0, unreached: object = ()) -> Outcome:
        round_ = replace(
            self.round(),
            members={name: tuple(instances) for name, instances in self.workers.items()},
            generation=self.generation + 1,
            last_completed_generation=self.generation
            if self.leader_received_last_assignment
            else self.generation - 1,
        )
        is_static = self.assign is assign_statically
        numbers = unreached if isinstance(unreached, frozenset) else frozenset()
        names = [name for number, name in enumerate(sorted(self.workers)) if number in numbers]
        self.now_ms += after_ms
        self.generation += 1
        self.outcome = self.assign(round_, self.state)
        check_round(round_, self.state, self.outcome)
        if is_static:
            check_placements(round_, self.outcome)
        self.state = self.outcome.state
        self.leader_received_last_assignment = min(self.workers) not in names
        for name, running in self.workers.items():
            if name not in names:
                kept_instances = [
                    instance for instance in running if instance not in self.outcome.revoked[name]
                ]
                self.workers[name] = [*self.outcome.assigned[name], *kept_instances]
        return self.outcome


def check_placements(round_: Round, outcome: Outcome) -> None:
    """Check that workers are assigned only instances that they may run, and that no instance moves needlessly."""
    listed_instances = find_static_instances(round_)
    report_counts = Counter(instance for instances in round_.members.values() for instance in instances)
    wildcard_workers = round_.members.keys() - round_.lists.keys()
    for member in round_.members:
        static_list = round_.lists.get(member)
        assigned_instances, revoked_instances = set(outcome.assigned[member]), set(outcome.revoked[member])
        misplaced_instances = {
            instance
            for instance in round_.members[member]
            if (instance in listed_instances if static_list is None else instance not in static_list)
        }
        assert assigned_instances <= (
            round_.configured - listed_instances if static_list is None else static_list
        ), "an instance is assigned to a worker that must not run it"
        assert misplaced_instances <= revoked_instances, (
            "an instance remains on a worker that must not run it"
        )
        required_revocations = misplaced_instances | {
            instance
            for instance in revoked_instances
            if instance not in round_.configured or report_counts[instance] > 1
        }
        moved_instances = revoked_instances - required_revocations
        if static_list is not None:
            assert not moved_instances, "revoked a listed instance from a worker that lists it"
        elif moved_instances:
            assert not outcome.delay_ms, "revoked instances to balance load during a delay"
            check_fair_share(
                round_.configured - listed_instances,
                moved_instances,
                outcome.owned[member],
                len(wildcard_workers),
            )
    unreported_instances = listed_instances - report_counts.keys()
    assert unreported_instances <= {
        instance for instances in outcome.assigned.values() for instance in instances
    }, "a static instance waits although a worker lists it"


def check_fair_share(
    instances: frozenset[ConnectorOrTask],
    moved_instances: set[ConnectorOrTask],
    kept_instances: tuple[ConnectorOrTask, ...],
    members: int,
) -> None:
    """Check that no member with a balancing revocation is below its fair share."""
    for moved_count, kept_count, total_count in zip(
        count_connectors_and_tasks(moved_instances),
        count_connectors_and_tasks(kept_instances),
        count_connectors_and_tasks(instances),
        strict=True,
    ):
        assert not moved_count or kept_count >= total_count // members, (
            "revoked so many instances that a member is below its fair share"
        )


def check_settled(group: Group) -> None:
    """Check that every assignable instance runs once, on a permitted worker, and that wildcard workers are balanced."""
    round_ = group.round()
    listed_instances = (
        find_static_instances(round_) if group.assign is assign_statically else frozenset[ConnectorOrTask]()
    )
    static_lists = round_.lists if group.assign is assign_statically else {}
    wildcard_workers = {
        name: instances for name, instances in group.workers.items() if name not in static_lists
    }
    for name, static_list in static_lists.items():
        assert {*group.workers[name]} <= static_list
    expected = group.configured if wildcard_workers else listed_instances
    assert group.running() == Counter(expected), "an instance is missing, duplicated or deleted"
    loads = [count_connectors_and_tasks(instances) for instances in wildcard_workers.values()]
    for kind in range(2):
        sizes = [load[kind] for load in loads] or [0]
        assert max(sizes) - min(sizes) <= 1, "the load of wildcard workers is not balanced"


def create_group(max_delay_ms: int) -> Group:
    return Group(connectors={}, max_delay_ms=max_delay_ms, workers={"w00": []})


History = list[tuple[list[tuple[str, object]], frozenset[int]]]


@settings(max_examples=150)
@given(max_delays, histories, possibly_empty_lists)
def test_random_history_ends_with_every_instance_placed_correctly(
    max_delay_ms: int, history: History, static_list: frozenset[ConnectorOrTask]
) -> None:
    group = create_group(max_delay_ms)
    if static_list:
        group.lists["w00"] = static_list
    for round_events, unreached in history:
        for event in round_events:
            group.apply_event(*event)
        group.rebalance(unreached=unreached)
        assert set(group.running().values()) <= {1}, "an instance runs twice"
    group.settle(MAX_ROUNDS + 1)
    check_settled(group)


@settings(max_examples=60)
@given(max_delays, histories, st.integers(0, 9), possibly_empty_lists)
def test_worker_returning_with_old_work_converges(
    max_delay_ms: int, history: History, number: int, static_list: frozenset[ConnectorOrTask]
) -> None:
    """The worker does not know that its instances were reassigned, so these instances run twice for one round."""
    group = create_group(max_delay_ms)
    group.connectors = {"c0": 3, "c1": 2}
    group.join_worker(static_list)
    group.settle()
    name = sorted(group.workers)[number % 2]
    stale_instances = list(group.workers[name])
    group.lose_worker(number)
    for round_events, unreached in history:
        for event in round_events:
            group.apply_event(*event)
        group.rebalance(unreached=unreached)
    group.join_worker(static_list)
    group.workers[max(group.workers)] = stale_instances
    group.rebalance()
    assert set(group.running().values()) <= {1}, "an instance runs twice after the round with revocations"
    group.settle(MAX_ROUNDS + 1)
    check_settled(group)


@settings(max_examples=150)
@given(max_delays, histories)
def test_group_without_static_workers_assigns_like_the_sessioned_protocol(
    max_delay_ms: int, history: History
) -> None:
    static_group, sessioned_group = create_group(max_delay_ms), create_group(max_delay_ms)
    sessioned_group.assign = assign_incrementally
    for round_events, unreached in history:
        for kind, argument in round_events:
            if kind in {"downgrade", "upgrade", "settle"}:
                continue
            for group in (static_group, sessioned_group):
                group.apply_event(kind, without_lists(argument))
        assert static_group.rebalance(unreached=unreached) == sessioned_group.rebalance(unreached=unreached)
        assert static_group.workers == sessioned_group.workers


STATIC_WORKER_MISSES_A_REVOCATION: History = [
    ([("join", frozenset()), ("configure", (0, 0)), ("configure", (2, 0))], frozenset()),
    ([("leave", 1), ("configure", (1, 0))], frozenset({2})),
    ([], frozenset()),
]


@settings(max_examples=100)
@given(max_delays, histories)
@example(1, STATIC_WORKER_MISSES_A_REVOCATION)
def test_wildcard_work_is_assigned_as_in_a_sessioned_group(max_delay_ms: int, history: History) -> None:
    """Steps 7 and 8 of KIP-987 are the incremental algorithm, whose result does not depend on static instances."""
    mixed_group, wildcard_group = create_group(max_delay_ms), create_group(max_delay_ms)
    wildcard_group.assign = assign_incrementally
    static_connector = ConnectorName("apart")
    for name, static_list in (
        ("z0", {ConnectorOrTask(static_connector), ConnectorOrTask(static_connector, 0)}),
        (
            "z1",
            {
                ConnectorOrTask(static_connector, 0),
                ConnectorOrTask(static_connector, 1),
                ConnectorOrTask(static_connector, 2),
            },
        ),
    ):
        mixed_group.workers[name] = []
        mixed_group.lists[name] = frozenset(static_list)
    for round_events, unreached in history:
        for kind, argument in round_events:
            if kind in {"leave", "return"}:
                number = (
                    argument
                    if isinstance(argument, int)
                    else argument[0]
                    if isinstance(argument, tuple)
                    else 0
                )
                name = sorted(wildcard_group.workers)[number % len(wildcard_group.workers)]
                assert wildcard_group.lose_worker(number) == (name not in wildcard_group.workers)
                if name not in wildcard_group.workers:
                    mixed_group.lose_worker(sorted(mixed_group.workers).index(name))
            if kind in {"join", "return"}:
                for group in (mixed_group, wildcard_group):
                    group.join_worker(frozenset())
            if kind in {"configure", "delete", "wait"}:
                for group in (mixed_group, wildcard_group):
                    group.apply_event(kind, argument)
        mixed_group.connectors["apart"] = len(mixed_group.connectors) % 4
        mixed_outcome, wildcard_outcome = (
            mixed_group.rebalance(unreached=unreached),
            wildcard_group.rebalance(unreached=unreached),
        )
        assert mixed_outcome.delay_ms == wildcard_outcome.delay_ms
        for name in wildcard_group.workers:
            assert (mixed_outcome.assigned[name], mixed_outcome.revoked[name]) == (
                wildcard_outcome.assigned[name],
                wildcard_outcome.revoked[name],
            )


def without_lists(argument: object) -> object:
    """Return the argument of an event, with an empty list in place of a list of static instances."""
    if isinstance(argument, frozenset):
        return frozenset[ConnectorOrTask]()
    if isinstance(argument, tuple) and isinstance(argument[1], frozenset):
        return argument[0], frozenset[ConnectorOrTask]()
    return argument


@settings(max_examples=60)
@given(max_delays, histories)
def test_assignment_is_deterministic(max_delay_ms: int, history: History) -> None:
    first, second = create_group(max_delay_ms), create_group(max_delay_ms)
    for round_events, unreached in history:
        for event in round_events:
            if event[0] != "settle":
                first.apply_event(*event)
                second.apply_event(*event)
        # The assignment must not depend on the order of members.
        second.workers = dict(reversed(second.workers.items()))
        second.lists = dict(reversed(second.lists.items()))
        assert first.rebalance(unreached=unreached) == second.rebalance(unreached=unreached)
