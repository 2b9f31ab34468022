"""Tests for incremental assignment in random histories of joins, leaves, lost assignments and config changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.cluster.assignment.incremental import assign_incrementally
from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round
from kraal.core.ids import ConnectorName
from kraal.protocol.group import CONNECTOR, ConnectorOrTask
from tests.fakes.cluster.rounds import check_round

MAX_ROUNDS = 5
"""Maximum number of rounds until the group is stable."""

KindPredicate = Callable[[ConnectorOrTask], bool]


def is_connector(instance: ConnectorOrTask) -> bool:
    return instance.task == CONNECTOR


def is_task(instance: ConnectorOrTask) -> bool:
    return instance.task != CONNECTOR


def size(instances: Iterable[ConnectorOrTask], kind: KindPredicate) -> int:
    return sum(map(kind, instances))


@dataclass
class Group:
    """Workers that apply assignments, and a leader whose assignments may get lost."""

    max_delay_ms: int
    workers: dict[str, list[ConnectorOrTask]] = field(default_factory=lambda: {"w00": []})
    connectors: dict[ConnectorName, int] = field(default_factory=dict)
    state: AssignorState = field(default_factory=AssignorState)
    leader: str = "w00"
    leader_generation: int = 0
    generation: int = 0
    now_ms: int = 1_000
    join_count: int = 0

    @property
    def configured(self) -> frozenset[ConnectorOrTask]:
        return frozenset(
            ConnectorOrTask(name, task)
            for name, tasks in self.connectors.items()
            for task in range(CONNECTOR, tasks)
        )

    def running(self) -> Counter[ConnectorOrTask]:
        return Counter(instance for instances in self.workers.values() for instance in instances)

    def join(self, running: Iterable[ConnectorOrTask] = ()) -> None:
        self.join_count += 1
        self.workers[f"w{self.join_count:02}"] = list(running)

    def leave(self, number: int) -> list[ConnectorOrTask]:
        """Remove a worker unless it is the only worker; return its instances. A new leader starts without state."""
        if len(self.workers) == 1:
            return []
        name = sorted(self.workers)[number % len(self.workers)]
        instances = self.workers.pop(name)
        if name == self.leader:
            self.leader, self.state, self.leader_generation = min(self.workers), AssignorState(), -1
        return instances

    def rebalance(self, unreached: frozenset[int] = frozenset()) -> Outcome:
        """Run one round whose assignments do not reach the workers with the numbers in `unreached`."""
        self.generation += 1
        round_ = Round(
            members={name: tuple(instances) for name, instances in self.workers.items()},
            configured=self.configured,
            last_completed_generation=self.leader_generation,
            generation=self.generation,
            now_ms=self.now_ms,
            max_delay_ms=self.max_delay_ms,
        )
        state_before = self.state
        outcome = assign_incrementally(round_, state_before)
        check_round(round_, state_before, outcome)
        check_revocations(round_, outcome)
        self.state = outcome.state
        for number, name in enumerate(sorted(self.workers)):
            if number in unreached:
                continue
            if name == self.leader:
                self.leader_generation = self.generation
            kept_instances = [
                instance for instance in self.workers[name] if instance not in outcome.revoked[name]
            ]
            self.workers[name] = [*outcome.assigned[name], *kept_instances]
        return outcome

    def converge(self) -> int:
        """Run rounds until two consecutive rounds have no change and no delay; return the number of other rounds.

        Two rounds are required because a new leader learns only from its first round which instances should run.
        """
        rounds, stable_rounds = 0, 0
        while stable_rounds < 2:
            outcome = self.rebalance()
            self.now_ms += outcome.delay_ms
            has_moves = any(outcome.assigned.values()) or any(outcome.revoked.values())
            stable_rounds = 0 if has_moves or outcome.delay_ms else stable_rounds + 1
            rounds += not stable_rounds
            assert rounds <= MAX_ROUNDS
        return rounds


def check_revocations(round_: Round, outcome: Outcome) -> None:
    """Check that only deleted, duplicate or excess instances are revoked, and excess instances only without a delay."""
    report_counts = Counter(instance for instances in round_.members.values() for instance in instances)
    for member, instances in outcome.revoked.items():
        surplus = [
            instance
            for instance in instances
            if instance in round_.configured and report_counts[instance] <= 1
        ]
        assert not (surplus and outcome.delay_ms), "revoked instances to balance load during a delay"
        for kind in (is_connector, is_task):
            share = size(round_.configured, kind) // len(round_.members)
            if size(surplus, kind):
                assert size(outcome.owned[member], kind) >= share, (
                    "revoked so many instances that a member is below its fair share"
                )


def check_converged(group: Group) -> None:
    """Check that a stable group runs every instance once and that the load is balanced."""
    assert group.running() == Counter(group.configured), "an instance is lost, duplicated or deleted"
    for kind in (is_connector, is_task):
        sizes = [size(instances, kind) for instances in group.workers.values()]
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
unreached_workers = st.frozensets(st.integers(0, 4), max_size=3)
histories = st.lists(st.tuples(st.lists(events, max_size=3), unreached_workers), max_size=12)
max_delays = st.sampled_from([0, 1, 1_000, 300_000])


def apply_event(group: Group, event: tuple[str, int]) -> None:
    kind, number = event
    match kind:
        case "join":
            group.join()
        case "leave":
            group.leave(number)
        case "bounce":  # a return before the loss is detected, with a new member ID and no work
            if group.leave(number):
                group.join()
        case "configure":  # a new connector, or another number of tasks of an existing connector
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
    for round_events, unreached in history:
        for event in round_events:
            apply_event(group, event)
        group.rebalance(unreached)
        assert set(group.running().values()) <= {1}, "an instance runs twice"
    group.converge()
    check_converged(group)


@settings(max_examples=40)
@given(max_delays, histories, st.integers(0, 9))
def test_worker_returning_with_old_work_converges(
    max_delay_ms: int, history: list[tuple[list[tuple[str, int]], frozenset[int]]], number: int
) -> None:
    """The worker does not know that its instances were reassigned, so these instances run twice for one round."""
    group = Group(max_delay_ms=max_delay_ms, connectors={ConnectorName("c0"): 5, ConnectorName("c1"): 3})
    group.join()
    group.converge()
    stale_instances = group.leave(number)
    for round_events, unreached in history:
        for event in round_events:
            apply_event(group, event)
        group.rebalance(unreached)
    group.join(stale_instances)
    group.rebalance()
    assert set(group.running().values()) <= {1}, "an instance runs twice after the round with revocations"
    group.converge()
    check_converged(group)


@settings(max_examples=40)
@given(
    max_delays,
    st.dictionaries(st.integers(0, 9).map(lambda n: ConnectorName(f"c{n}")), st.integers(0, 9)),
    st.integers(1, 6),
)
def test_balanced_work_does_not_move_after_a_change_of_leader(
    max_delay_ms: int, connectors: dict[ConnectorName, int], workers: int
) -> None:
    group = Group(max_delay_ms=max_delay_ms, connectors=connectors)
    for _ in range(workers - 1):
        group.join()
    assert group.converge() <= 1
    instances_before = {name: list(instances) for name, instances in group.workers.items()}
    group.state = AssignorState()  # another worker becomes the leader
    outcome = group.rebalance()
    assert (group.workers, outcome.delay_ms) == (instances_before, 0)


@settings(max_examples=40)
@given(histories)
def test_assignment_is_deterministic(
    history: list[tuple[list[tuple[str, int]], frozenset[int]]],
) -> None:
    first, second = Group(max_delay_ms=1_000), Group(max_delay_ms=1_000)
    for round_events, unreached in history:
        for group in (first, second):
            for event in round_events:
                apply_event(group, event)
        # The assignment must not depend on the order of members.
        second.workers = dict(reversed(second.workers.items()))
        assert first.rebalance(unreached) == second.rebalance(unreached)
