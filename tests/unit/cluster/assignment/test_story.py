"""Tests for incremental assignment in the scenarios of IncrementalCooperativeAssignorTest and in additional scenarios.

The scenarios check the number of instances of each worker, the revocations and the delay, but not the owner of each
instance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from kraal.cluster.assignment.incremental import assign_incrementally
from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round
from kraal.core.ids import ConnectorName
from kraal.protocol.group import CONNECTOR, ConnectorOrTask

FIVE_MINUTES_MS = 300_000
EMPTY_OUTCOME = Outcome(assigned={}, revoked={}, owned={}, delay_ms=0, state=AssignorState())


def list_instances(connector: str, tasks: int = 4) -> list[ConnectorOrTask]:
    return [ConnectorOrTask(ConnectorName(connector), task) for task in range(CONNECTOR, tasks)]


def count_connectors_and_tasks(instances: Iterable[ConnectorOrTask]) -> tuple[int, int]:
    """Return the numbers of connectors and tasks."""
    kinds = Counter(instance.task == CONNECTOR for instance in instances)
    return kinds[True], kinds[False]


@dataclass
class Scenario:
    """A group whose workers apply and report their assignments; w1 is an initial member."""

    connectors: dict[str, int] = field(default_factory=lambda: {"c1": 4, "c2": 4})
    max_delay_ms: int = FIVE_MINUTES_MS
    workers: dict[str, list[ConnectorOrTask]] = field(default_factory=lambda: {"w1": []})
    state: AssignorState = field(default_factory=AssignorState)
    generation: int = 1_000
    now_ms: int = 50_000
    last: Outcome = EMPTY_OUTCOME

    def add_worker(self, name: str, running: Iterable[ConnectorOrTask] = ()) -> None:
        self.workers[name] = list(running)

    def remove_worker(self, name: str) -> None:
        del self.workers[name]

    def delete_connector(self, name: str) -> None:
        del self.connectors[name]

    def change_leader(self) -> None:
        self.state = AssignorState()

    def rebalance(
        self, *, after_ms: int = 0, is_delivered: bool = True, leader_received_last_assignment: bool = True
    ) -> None:
        self.now_ms += after_ms
        self.generation += 1
        configured_instances = [
            instance for name, tasks in self.connectors.items() for instance in list_instances(name, tasks)
        ]
        self.last = assign_incrementally(
            Round(
                members=self.workers,
                configured=frozenset(configured_instances),
                last_completed_generation=self.generation - (1 if leader_received_last_assignment else 2),
                generation=self.generation,
                now_ms=self.now_ms,
                max_delay_ms=self.max_delay_ms,
            ),
            self.state,
        )
        self.state = self.last.state
        for name, instances in self.workers.items() if is_delivered else ():
            kept_instances = [instance for instance in instances if instance not in self.last.revoked[name]]
            self.workers[name] = [*self.last.assigned[name], *kept_instances]

    def assert_loads(
        self,
        *,
        connectors: list[int] | None = None,
        tasks: list[int] | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """Check the sorted connector counts and task counts of the workers, and the delay. None skips a check."""
        loads = [count_connectors_and_tasks(instances) for instances in self.workers.values()]
        assert connectors in (None, sorted(load[0] for load in loads))
        assert tasks in (None, sorted(load[1] for load in loads))
        assert delay_ms in (None, self.last.delay_ms)

    def assert_delay(self, ms: int) -> None:
        self.assert_loads(delay_ms=ms)

    def assert_revoked(self, **expected: tuple[int, int]) -> None:
        """Check the numbers of connectors and tasks that each worker must stop. Unlisted workers must stop none."""
        assert {
            name: count_connectors_and_tasks(instances)
            for name, instances in self.last.revoked.items()
            if instances
        } == expected

    def assert_assigned(self, **expected: tuple[int, int]) -> None:
        """Check the numbers of connectors and tasks that each worker must start. Unlisted workers must start none."""
        assert {
            name: count_connectors_and_tasks(instances)
            for name, instances in self.last.assigned.items()
            if instances
        } == expected

    def assert_no_changes(self) -> None:
        self.rebalance()
        self.assert_revoked()
        self.assert_assigned()
        self.assert_delay(0)


def settled_group(*workers: str, **options: int) -> Scenario:
    """Return a balanced group of these workers, with `connectors` connectors (default: 2) of four tasks each."""
    names = [f"c{n + 1}" for n in range(options.pop("connectors", 2))]
    scenario = Scenario(connectors=dict.fromkeys(names, 4), workers={name: [] for name in workers}, **options)  # type: ignore[arg-type]
    scenario.rebalance()
    scenario.assert_delay(0)
    scenario.assert_revoked()
    return scenario


def test_joining_worker_receives_its_share() -> None:
    scenario = settled_group("w1")
    scenario.assert_loads(connectors=[2], tasks=[8])
    scenario.add_worker("w2")
    scenario.rebalance()
    scenario.assert_revoked(w1=(1, 4))
    scenario.assert_assigned()
    scenario.assert_loads(connectors=[0, 1], tasks=[0, 4], delay_ms=0)
    scenario.rebalance()
    scenario.assert_revoked()
    scenario.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)
    scenario.assert_no_changes()


def test_workers_joining_one_by_one_receive_their_shares() -> None:
    scenario = settled_group("w1", connectors=3)
    scenario.add_worker("w2")
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 2], tasks=[0, 6])
    scenario.add_worker("w3")
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 1, 2], tasks=[3, 3, 6], delay_ms=40)
    scenario.assert_revoked()
    scenario.add_worker("w4")
    scenario.rebalance(after_ms=40)
    scenario.assert_revoked(w1=(1, 3))
    scenario.assert_loads(connectors=[0, 0, 1, 1], tasks=[0, 3, 3, 3], delay_ms=0)
    scenario.add_worker("w5")
    scenario.rebalance()
    scenario.assert_revoked()
    scenario.assert_loads(connectors=[0, 0, 1, 1, 1], tasks=[1, 2, 3, 3, 3], delay_ms=1_600)
    scenario.add_worker("w6")
    scenario.rebalance(after_ms=1_600)
    scenario.assert_loads(connectors=[0, 0, 0, 1, 1, 1], tasks=[0, 1, 2, 2, 2, 2], delay_ms=0)
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 0, 0, 1, 1, 1], tasks=[2, 2, 2, 2, 2, 2], delay_ms=0)


def test_zero_max_delay_revokes_immediately() -> None:
    scenario = settled_group("w1", connectors=3, max_delay_ms=0)
    scenario.add_worker("w2")
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 2], tasks=[0, 6])
    scenario.add_worker("w3")
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 1, 1], tasks=[3, 3, 4], delay_ms=0)
    scenario.rebalance()
    scenario.assert_revoked()
    scenario.assert_loads(connectors=[1, 1, 1], tasks=[4, 4, 4], delay_ms=0)


def test_successive_revocations_back_off_up_to_the_max_delay() -> None:
    scenario = settled_group("w1", connectors=3, max_delay_ms=1)
    scenario.add_worker("w2")
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 2], tasks=[0, 6], delay_ms=0)
    scenario.add_worker("w3")
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 1, 2], tasks=[3, 3, 6], delay_ms=1)


def test_join_during_a_delay_revokes_work_only_after_the_delay() -> None:
    scenario = settled_group("w1", connectors=3)
    scenario.add_worker("w2")
    scenario.rebalance()
    scenario.add_worker("w3")
    scenario.rebalance()
    scenario.assert_delay(40)
    scenario.add_worker("w4")
    scenario.rebalance(after_ms=20)
    scenario.assert_revoked()
    scenario.assert_loads(connectors=[0, 0, 1, 2], tasks=[0, 3, 3, 6], delay_ms=20)
    scenario.add_worker("w5")
    scenario.rebalance(after_ms=20)
    assert any(scenario.last.revoked.values())
    scenario.assert_loads(connectors=[0, 0, 0, 1, 1], tasks=[0, 0, 2, 3, 3], delay_ms=0)
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 0, 1, 1, 1], tasks=[2, 2, 2, 3, 3], delay_ms=0)


def test_work_of_a_departed_worker_is_reassigned() -> None:
    scenario = settled_group("w1", "w2")
    scenario.assert_loads(connectors=[1, 1], tasks=[4, 4])
    scenario.remove_worker("w2")
    scenario.rebalance()
    scenario.assert_delay(300_000)
    scenario.assert_assigned()
    scenario.assert_loads(connectors=[1], tasks=[4])
    scenario.rebalance(after_ms=150_000)
    scenario.assert_delay(150_000)
    scenario.assert_assigned()
    scenario.rebalance(after_ms=150_001)
    scenario.assert_loads(connectors=[2], tasks=[8], delay_ms=0)


def test_bouncing_worker_receives_its_work_again() -> None:
    scenario = settled_group("w1", "w2")
    instances_of_w2 = set(scenario.workers["w2"])
    scenario.remove_worker("w2")
    scenario.rebalance()
    scenario.assert_delay(300_000)
    scenario.rebalance(after_ms=150_000)
    scenario.assert_delay(150_000)
    scenario.add_worker("w2")
    scenario.rebalance(after_ms=75_000)
    scenario.assert_loads(connectors=[0, 1], tasks=[0, 4], delay_ms=75_000)
    scenario.rebalance(after_ms=75_000)
    scenario.assert_delay(0)
    scenario.assert_revoked()
    scenario.assert_loads(connectors=[1, 1], tasks=[4, 4])
    assert set(scenario.workers["w2"]) == instances_of_w2


def group_without_its_leader() -> Scenario:
    scenario = settled_group("w1", "w2", "w3")
    scenario.assert_loads(connectors=[0, 1, 1], tasks=[2, 3, 3])
    scenario.remove_worker("w1")
    scenario.change_leader()
    scenario.rebalance()
    return scenario


def test_work_of_a_departed_leader_is_reassigned() -> None:
    scenario = group_without_its_leader()
    scenario.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)
    scenario.assert_no_changes()


def test_bouncing_leader_receives_its_work_again() -> None:
    scenario = group_without_its_leader()
    scenario.add_worker("w1")
    scenario.rebalance()
    scenario.assert_revoked(w2=(0, 1), w3=(0, 1))
    scenario.assert_loads(connectors=[0, 1, 1], tasks=[0, 3, 3], delay_ms=0)
    scenario.rebalance()
    scenario.assert_revoked()
    scenario.assert_loads(connectors=[0, 1, 1], tasks=[2, 3, 3], delay_ms=0)


def test_lost_first_assignment_is_repeated() -> None:
    scenario = Scenario()
    scenario.add_worker("w2")
    scenario.rebalance(is_delivered=False)
    scenario.assert_loads(tasks=[0, 0], delay_ms=0)
    scenario.rebalance()
    scenario.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)


@pytest.mark.parametrize(
    "leader_received_last_assignment",
    [
        pytest.param(True, id="not received by the workers"),
        pytest.param(False, id="not received by the leader either"),
    ],
)
def test_lost_later_assignment_is_repeated(*, leader_received_last_assignment: bool) -> None:
    scenario = settled_group("w1", "w2")
    scenario.add_worker("w3")
    scenario.rebalance(is_delivered=False)
    scenario.assert_loads(connectors=[0, 1, 1], tasks=[0, 4, 4], delay_ms=0)
    scenario.rebalance(leader_received_last_assignment=leader_received_last_assignment)
    scenario.assert_delay(40)
    scenario.assert_revoked()
    scenario.assert_loads(tasks=[0, 4, 4])
    scenario.rebalance(after_ms=40)
    scenario.assert_delay(0)
    scenario.assert_revoked(w1=(0, 1), w2=(0, 1))
    scenario.assert_loads(connectors=[0, 1, 1], tasks=[0, 3, 3])
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 1, 1], tasks=[2, 3, 3])


def test_deleted_connector_is_revoked() -> None:
    scenario = settled_group("w1", "w2", connectors=3)
    scenario.assert_loads(connectors=[1, 2], tasks=[6, 6])
    scenario.delete_connector("c3")
    scenario.rebalance()
    assert sorted(
        instance for instances in scenario.last.revoked.values() for instance in instances
    ) == list_instances("c3")
    scenario.assert_assigned()
    scenario.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)


def test_zero_max_delay_reassigns_lost_work_immediately() -> None:
    scenario = settled_group("w1", "w2", max_delay_ms=0)
    scenario.remove_worker("w2")
    scenario.rebalance()
    scenario.assert_loads(connectors=[2], tasks=[8], delay_ms=0)


def test_duplicate_work_is_revoked_from_all_members() -> None:
    scenario = settled_group("w1")
    scenario.add_worker("w2", running=list_instances("c1"))
    scenario.rebalance()
    scenario.assert_revoked(w1=(1, 4), w2=(1, 4))
    scenario.assert_loads(connectors=[0, 1], tasks=[0, 4], delay_ms=0)
    scenario.rebalance()
    scenario.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)
    scenario.assert_no_changes()


def test_deleted_duplicate_work_is_revoked() -> None:
    scenario = settled_group("w1")
    scenario.add_worker("w2", running=list_instances("c1"))
    scenario.delete_connector("c1")
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 1], tasks=[0, 2], delay_ms=0)
    scenario.rebalance()
    scenario.assert_loads(connectors=[0, 1], tasks=[2, 2], delay_ms=0)


def test_joining_third_worker_causes_no_duplicates() -> None:
    scenario = settled_group("w1", "w2")
    scenario.add_worker("w3")
    scenario.rebalance()
    scenario.assert_assigned()
    scenario.assert_revoked(w1=(0, 1), w2=(0, 1))
    scenario.assert_delay(0)
    scenario.rebalance()
    scenario.assert_assigned(w3=(0, 2))


def test_work_of_a_leaving_worker_is_spread_after_the_delay() -> None:
    scenario = settled_group("w1", "w2", "w3")
    leaving_worker = next(
        name
        for name, instances in scenario.workers.items()
        if count_connectors_and_tasks(instances) == (0, 2)
    )
    scenario.remove_worker(leaving_worker)
    scenario.rebalance()
    scenario.assert_delay(300_000)
    scenario.assert_assigned()
    scenario.rebalance(after_ms=150_000)
    scenario.assert_delay(150_000)
    scenario.assert_assigned()
    scenario.rebalance(after_ms=150_001)
    scenario.assert_delay(0)
    scenario.assert_assigned(**dict.fromkeys(scenario.workers, (0, 1)))


def test_bouncing_worker_receives_all_of_its_work() -> None:
    scenario = settled_group("w1", "w2", "w3")
    leaving_worker = next(
        name
        for name, instances in scenario.workers.items()
        if count_connectors_and_tasks(instances) == (0, 2)
    )
    instances_of_leaving_worker = set(scenario.workers[leaving_worker])
    scenario.remove_worker(leaving_worker)
    scenario.rebalance()
    scenario.add_worker("w3-again")
    scenario.rebalance(after_ms=150_000)
    scenario.assert_delay(150_000)
    scenario.assert_assigned()
    scenario.rebalance(after_ms=150_000)
    assert set(scenario.workers["w3-again"]) == instances_of_leaving_worker


def test_idle_member_leaving_after_a_revocation_starts_a_full_delay() -> None:
    scenario = settled_group("w1", "w2")
    scenario.add_worker("w3")
    scenario.rebalance()
    scenario.assert_revoked(w1=(0, 1), w2=(0, 1))
    scenario.remove_worker("w3")
    scenario.rebalance()
    scenario.assert_delay(300_000)


def test_new_connectors_are_assigned_during_a_delay() -> None:
    scenario = settled_group("w1", "w2")
    scenario.remove_worker("w2")
    scenario.rebalance()
    scenario.connectors["c3"] = 2
    scenario.rebalance()
    scenario.assert_delay(300_000)
    scenario.assert_assigned(w1=(1, 2))


def test_connector_deleted_during_an_absence_is_not_reassigned() -> None:
    scenario = settled_group("w1", "w2", connectors=1)
    scenario.remove_worker("w2")
    scenario.rebalance()
    scenario.assert_delay(300_000)
    scenario.delete_connector("c1")
    scenario.rebalance()
    scenario.assert_loads(connectors=[0], tasks=[0], delay_ms=0)


def test_empty_config_assigns_no_work() -> None:
    scenario = Scenario(connectors={})
    scenario.assert_no_changes()
