"""Stories of a group that assigns incrementally, as in IncrementalCooperativeAssignorTest, and what they leave open.

Who gets which job is no one's business here: stories tell how many each worker runs, what is revoked, and the delay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from kraal.cluster.assignment.incremental import assign_incrementally
from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round
from kraal.core.ids import ConnectorName
from kraal.protocol.group import CONNECTOR, Job

FIVE_MINUTES_MS = 300_000
EMPTY_OUTCOME = Outcome(assigned={}, revoked={}, owned={}, delay_ms=0, state=AssignorState())


def jobs_of(connector: str, tasks: int = 4) -> list[Job]:
    return [Job(ConnectorName(connector), task) for task in range(CONNECTOR, tasks)]


def counts(jobs: Iterable[Job]) -> tuple[int, int]:
    """Return how many connectors and tasks."""
    kinds = Counter(job.task == CONNECTOR for job in jobs)
    return kinds[True], kinds[False]


@dataclass
class Story:
    """A group whose workers do and report what they are told; w1 is there from the start."""

    connectors: dict[str, int] = field(default_factory=lambda: {"c1": 4, "c2": 4})
    max_delay_ms: int = FIVE_MINUTES_MS
    workers: dict[str, list[Job]] = field(default_factory=lambda: {"w1": []})
    state: AssignorState = field(default_factory=AssignorState)
    generation: int = 1_000
    now_ms: int = 50_000
    last: Outcome = EMPTY_OUTCOME

    def add_worker(self, name: str, running: Iterable[Job] = ()) -> None:
        self.workers[name] = list(running)

    def remove_worker(self, name: str) -> None:
        del self.workers[name]

    def delete_connector(self, name: str) -> None:
        del self.connectors[name]

    def change_leader(self) -> None:
        self.state = AssignorState()

    def rebalance(self, *, after_ms: int = 0, delivered: bool = True, leader_heard_last: bool = True) -> None:
        self.now_ms += after_ms
        self.generation += 1
        configured = [job for name, tasks in self.connectors.items() for job in jobs_of(name, tasks)]
        self.last = assign_incrementally(
            Round(
                members=self.workers,
                configured=frozenset(configured),
                last_generation=self.generation - (1 if leader_heard_last else 2),
                generation=self.generation,
                now_ms=self.now_ms,
                max_delay_ms=self.max_delay_ms,
            ),
            self.state,
        )
        self.state = self.last.state
        for name, jobs in self.workers.items() if delivered else ():
            kept = [job for job in jobs if job not in self.last.revoked[name]]
            self.workers[name] = [*self.last.assigned[name], *kept]

    def assert_loads(
        self,
        *,
        connectors: list[int] | None = None,
        tasks: list[int] | None = None,
        delay_ms: int | None = None,
    ) -> None:
        """How many connectors and tasks the workers run, sorted, and the delay they were told; None: whatever."""
        loads = [counts(jobs) for jobs in self.workers.values()]
        assert connectors in (None, sorted(load[0] for load in loads))
        assert tasks in (None, sorted(load[1] for load in loads))
        assert delay_ms in (None, self.last.delay_ms)

    def assert_delay(self, ms: int) -> None:
        self.assert_loads(delay_ms=ms)

    def assert_revoked(self, **expected: tuple[int, int]) -> None:
        """How many connectors and tasks each worker has to stop; workers not named: none."""
        assert {name: counts(jobs) for name, jobs in self.last.revoked.items() if jobs} == expected

    def assert_assigned(self, **expected: tuple[int, int]) -> None:
        """How many connectors and tasks each worker has to start; workers not named: none."""
        assert {name: counts(jobs) for name, jobs in self.last.assigned.items() if jobs} == expected

    def assert_nothing_happens(self) -> None:
        self.rebalance()
        self.assert_revoked()
        self.assert_assigned()
        self.assert_delay(0)


def settled(*workers: str, **options: int) -> Story:
    """Begin with these workers in balance, and as many connectors of four tasks as `connectors` says."""
    names = [f"c{n + 1}" for n in range(options.pop("connectors", 2))]
    story = Story(connectors=dict.fromkeys(names, 4), workers={name: [] for name in workers}, **options)  # type: ignore[arg-type]
    story.rebalance()
    story.assert_delay(0)
    story.assert_revoked()
    return story


def test_a1_a_worker_joins() -> None:
    story = settled("w1")
    story.assert_loads(connectors=[2], tasks=[8])
    story.add_worker("w2")
    story.rebalance()
    story.assert_revoked(w1=(1, 4))
    story.assert_assigned()
    story.assert_loads(connectors=[0, 1], tasks=[0, 4], delay_ms=0)
    story.rebalance()
    story.assert_revoked()
    story.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)
    story.assert_nothing_happens()


def test_a2_workers_join_one_by_one_after_revocations() -> None:
    story = settled("w1", connectors=3)
    story.add_worker("w2")
    story.rebalance()
    story.assert_loads(connectors=[0, 2], tasks=[0, 6])
    story.add_worker("w3")
    story.rebalance()
    story.assert_loads(connectors=[0, 1, 2], tasks=[3, 3, 6], delay_ms=40)
    story.assert_revoked()
    story.add_worker("w4")
    story.rebalance(after_ms=40)
    story.assert_revoked(w1=(1, 3))
    story.assert_loads(connectors=[0, 0, 1, 1], tasks=[0, 3, 3, 3], delay_ms=0)
    story.add_worker("w5")
    story.rebalance()
    story.assert_revoked()
    story.assert_loads(connectors=[0, 0, 1, 1, 1], tasks=[1, 2, 3, 3, 3], delay_ms=1_600)
    story.add_worker("w6")
    story.rebalance(after_ms=1_600)
    story.assert_loads(connectors=[0, 0, 0, 1, 1, 1], tasks=[0, 1, 2, 2, 2, 2], delay_ms=0)
    story.rebalance()
    story.assert_loads(connectors=[0, 0, 0, 1, 1, 1], tasks=[2, 2, 2, 2, 2, 2], delay_ms=0)


def test_a3_revocations_are_immediate_when_the_max_delay_is_0() -> None:
    story = settled("w1", connectors=3, max_delay_ms=0)
    story.add_worker("w2")
    story.rebalance()
    story.assert_loads(connectors=[0, 2], tasks=[0, 6])
    story.add_worker("w3")
    story.rebalance()
    story.assert_loads(connectors=[0, 1, 1], tasks=[3, 3, 4], delay_ms=0)
    story.rebalance()
    story.assert_revoked()
    story.assert_loads(connectors=[1, 1, 1], tasks=[4, 4, 4], delay_ms=0)


def test_a4_successive_revocations_wait_no_longer_than_the_max_delay() -> None:
    story = settled("w1", connectors=3, max_delay_ms=1)
    story.add_worker("w2")
    story.rebalance()
    story.assert_loads(connectors=[0, 2], tasks=[0, 6], delay_ms=0)
    story.add_worker("w3")
    story.rebalance()
    story.assert_loads(connectors=[0, 1, 2], tasks=[3, 3, 6], delay_ms=1)


def test_a5_a_worker_joins_during_a_delayed_rebalance() -> None:
    story = settled("w1", connectors=3)
    story.add_worker("w2")
    story.rebalance()
    story.add_worker("w3")
    story.rebalance()
    story.assert_delay(40)
    story.add_worker("w4")
    story.rebalance(after_ms=20)
    story.assert_revoked()
    story.assert_loads(connectors=[0, 0, 1, 2], tasks=[0, 3, 3, 6], delay_ms=20)
    story.add_worker("w5")
    story.rebalance(after_ms=20)
    assert any(story.last.revoked.values())
    story.assert_loads(connectors=[0, 0, 0, 1, 1], tasks=[0, 0, 2, 3, 3], delay_ms=0)
    story.rebalance()
    story.assert_loads(connectors=[0, 0, 1, 1, 1], tasks=[2, 2, 2, 3, 3], delay_ms=0)


def test_a6_a_worker_leaves_for_good() -> None:
    story = settled("w1", "w2")
    story.assert_loads(connectors=[1, 1], tasks=[4, 4])
    story.remove_worker("w2")
    story.rebalance()
    story.assert_delay(300_000)
    story.assert_assigned()
    story.assert_loads(connectors=[1], tasks=[4])
    story.rebalance(after_ms=150_000)
    story.assert_delay(150_000)
    story.assert_assigned()
    story.rebalance(after_ms=150_001)
    story.assert_loads(connectors=[2], tasks=[8], delay_ms=0)


def test_a7_a_worker_bounces() -> None:
    story = settled("w1", "w2")
    gone = set(story.workers["w2"])
    story.remove_worker("w2")
    story.rebalance()
    story.assert_delay(300_000)
    story.rebalance(after_ms=150_000)
    story.assert_delay(150_000)
    story.add_worker("w2")
    story.rebalance(after_ms=75_000)
    story.assert_loads(connectors=[0, 1], tasks=[0, 4], delay_ms=75_000)
    story.rebalance(after_ms=75_000)
    story.assert_delay(0)
    story.assert_revoked()
    story.assert_loads(connectors=[1, 1], tasks=[4, 4])
    assert set(story.workers["w2"]) == gone


def without_its_leader() -> Story:
    story = settled("w1", "w2", "w3")
    story.assert_loads(connectors=[0, 1, 1], tasks=[2, 3, 3])
    story.remove_worker("w1")
    story.change_leader()
    story.rebalance()
    return story


def test_a8_the_leader_leaves_for_good() -> None:
    story = without_its_leader()
    story.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)
    story.assert_nothing_happens()


def test_a9_the_leader_bounces() -> None:
    story = without_its_leader()
    story.add_worker("w1")
    story.rebalance()
    story.assert_revoked(w2=(0, 1), w3=(0, 1))
    story.assert_loads(connectors=[0, 1, 1], tasks=[0, 3, 3], delay_ms=0)
    story.rebalance()
    story.assert_revoked()
    story.assert_loads(connectors=[0, 1, 1], tasks=[2, 3, 3], delay_ms=0)


def test_a10_the_first_assignment_is_lost_on_its_way() -> None:
    story = Story()
    story.add_worker("w2")
    story.rebalance(delivered=False)
    story.assert_loads(tasks=[0, 0], delay_ms=0)
    story.rebalance()
    story.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)


@pytest.mark.parametrize(
    "leader_heard_last",
    [
        pytest.param(True, id="on its way"),
        pytest.param(False, id="outside the assignor, the leader did not hear it either"),
    ],
)
def test_a11_a12_a_later_assignment_is_lost(*, leader_heard_last: bool) -> None:
    story = settled("w1", "w2")
    story.add_worker("w3")
    story.rebalance(delivered=False)
    story.assert_loads(connectors=[0, 1, 1], tasks=[0, 4, 4], delay_ms=0)
    story.rebalance(leader_heard_last=leader_heard_last)
    story.assert_delay(40)
    story.assert_revoked()
    story.assert_loads(tasks=[0, 4, 4])
    story.rebalance(after_ms=40)
    story.assert_delay(0)
    story.assert_revoked(w1=(0, 1), w2=(0, 1))
    story.assert_loads(connectors=[0, 1, 1], tasks=[0, 3, 3])
    story.rebalance()
    story.assert_loads(connectors=[0, 1, 1], tasks=[2, 3, 3])


def test_a13_a_connector_is_deleted() -> None:
    story = settled("w1", "w2", connectors=3)
    story.assert_loads(connectors=[1, 2], tasks=[6, 6])
    story.delete_connector("c3")
    story.rebalance()
    assert sorted(job for jobs in story.last.revoked.values() for job in jobs) == jobs_of("c3")
    story.assert_assigned()
    story.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)


def test_a14_lost_work_is_assigned_at_once_when_the_max_delay_is_0() -> None:
    story = settled("w1", "w2", max_delay_ms=0)
    story.remove_worker("w2")
    story.rebalance()
    story.assert_loads(connectors=[2], tasks=[8], delay_ms=0)


def test_a15_duplicate_work_is_revoked_everywhere() -> None:
    story = settled("w1")
    story.add_worker("w2", running=jobs_of("c1"))
    story.rebalance()
    story.assert_revoked(w1=(1, 4), w2=(1, 4))
    story.assert_loads(connectors=[0, 1], tasks=[0, 4], delay_ms=0)
    story.rebalance()
    story.assert_loads(connectors=[1, 1], tasks=[4, 4], delay_ms=0)
    story.assert_nothing_happens()


def test_a16_deleted_duplicate_work_is_revoked() -> None:
    story = settled("w1")
    story.add_worker("w2", running=jobs_of("c1"))
    story.delete_connector("c1")
    story.rebalance()
    story.assert_loads(connectors=[0, 1], tasks=[0, 2], delay_ms=0)
    story.rebalance()
    story.assert_loads(connectors=[0, 1], tasks=[2, 2], delay_ms=0)


def test_b7_a_third_worker_joins_and_nothing_runs_twice_meanwhile() -> None:
    story = settled("w1", "w2")
    story.add_worker("w3")
    story.rebalance()
    story.assert_assigned()
    story.assert_revoked(w1=(0, 1), w2=(0, 1))
    story.assert_delay(0)
    story.rebalance()
    story.assert_assigned(w3=(0, 2))


def test_b7_a_worker_leaves_and_its_work_is_spread_after_the_delay() -> None:
    story = settled("w1", "w2", "w3")
    gone = next(name for name, jobs in story.workers.items() if counts(jobs) == (0, 2))
    story.remove_worker(gone)
    story.rebalance()
    story.assert_delay(300_000)
    story.assert_assigned()
    story.rebalance(after_ms=150_000)
    story.assert_delay(150_000)
    story.assert_assigned()
    story.rebalance(after_ms=150_001)
    story.assert_delay(0)
    story.assert_assigned(**dict.fromkeys(story.workers, (0, 1)))


def test_b7_a_worker_bounces_and_gets_all_it_had() -> None:
    story = settled("w1", "w2", "w3")
    gone = next(name for name, jobs in story.workers.items() if counts(jobs) == (0, 2))
    had = set(story.workers[gone])
    story.remove_worker(gone)
    story.rebalance()
    story.add_worker("w3-again")
    story.rebalance(after_ms=150_000)
    story.assert_delay(150_000)
    story.assert_assigned()
    story.rebalance(after_ms=150_000)
    assert set(story.workers["w3-again"]) == had


def test_quirk_a_member_that_leaves_empty_handed_after_a_revocation_starts_a_full_delay() -> None:
    story = settled("w1", "w2")
    story.add_worker("w3")
    story.rebalance()
    story.assert_revoked(w1=(0, 1), w2=(0, 1))
    story.remove_worker("w3")
    story.rebalance()
    story.assert_delay(300_000)


def test_new_connectors_are_assigned_while_a_delay_is_on() -> None:
    story = settled("w1", "w2")
    story.remove_worker("w2")
    story.rebalance()
    story.connectors["c3"] = 2
    story.rebalance()
    story.assert_delay(300_000)
    story.assert_assigned(w1=(1, 2))


def test_a_connector_that_was_deleted_while_its_worker_was_away_is_not_given_back() -> None:
    story = settled("w1", "w2", connectors=1)
    story.remove_worker("w2")
    story.rebalance()
    story.assert_delay(300_000)
    story.delete_connector("c1")
    story.rebalance()
    story.assert_loads(connectors=[0], tasks=[0], delay_ms=0)


def test_without_connectors_nothing_happens() -> None:
    story = Story(connectors={})
    story.assert_nothing_happens()
