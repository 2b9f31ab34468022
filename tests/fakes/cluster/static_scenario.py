"""A group with static assignments: workers that follow and report their assignments, and a leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round
from kraal.cluster.assignment.static import assign_statically
from kraal.config.worker.distributed_keys import parse_static_task
from kraal.core.ids import ConnectorName
from kraal.protocol.group import CONNECTOR, ConnectorOrTask

FIVE_MINUTES_MS = 300_000

Assign = Callable[[Round, AssignorState], Outcome]


def parse_instance(text: str) -> ConnectorOrTask:
    """Parse the name of a connector (`c1`) or the id of a task (`c1-0`). Connector names must not contain hyphens."""
    task = parse_static_task(text)
    return (
        ConnectorOrTask(ConnectorName(text))
        if task is None
        else ConnectorOrTask(ConnectorName(task[0]), task[1])
    )


def parse_instances(text: str) -> frozenset[ConnectorOrTask]:
    """Parse connector names and task ids that are separated by spaces."""
    return frozenset(map(parse_instance, text.split()))


@dataclass
class StaticScenario:
    """A leader, and workers with their instances. `lists` contains the static assignments of the current workers."""

    connectors: dict[str, int] = field(default_factory=lambda: {"c1": 2, "c2": 2})
    """Number of tasks by connector."""
    max_delay_ms: int = FIVE_MINUTES_MS
    assign: Assign = assign_statically
    workers: dict[str, list[ConnectorOrTask]] = field(default_factory=dict)
    lists: dict[str, frozenset[ConnectorOrTask]] = field(default_factory=dict)
    state: AssignorState = field(default_factory=AssignorState)
    generation: int = 1_000
    now_ms: int = 50_000
    outcome: Outcome | None = None

    def join(self, name: str, listed: str = "", running: Iterable[ConnectorOrTask] = ()) -> None:
        """Add a worker; `listed` contains its static instances, separated by spaces."""
        self.workers[name] = list(running)
        if listed:
            self.lists[name] = parse_instances(listed)

    def leave(self, name: str) -> list[ConnectorOrTask]:
        """Remove a worker; return its instances."""
        self.lists.pop(name, None)
        return self.workers.pop(name)

    @property
    def configured(self) -> frozenset[ConnectorOrTask]:
        """All configured instances."""
        return frozenset(
            ConnectorOrTask(ConnectorName(name), task)
            for name, tasks in self.connectors.items()
            for task in range(CONNECTOR, tasks)
        )

    @property
    def last(self) -> Outcome:
        """The last outcome of the leader."""
        assert self.outcome is not None, "no round has run"
        return self.outcome

    def round(self) -> Round:
        """Return the leader's input for the next round."""
        return Round(
            members=self.workers,
            configured=self.configured,
            last_completed_generation=self.generation - 1,
            generation=self.generation,
            now_ms=self.now_ms,
            max_delay_ms=self.max_delay_ms,
            lists=dict(self.lists),
        )

    def rebalance(self, *, after_ms: int = 0, unreached: Iterable[str] = ()) -> Outcome:
        """Run one round; `unreached` workers do not receive their assignments."""
        self.now_ms += after_ms
        self.generation += 1
        self.outcome = self.assign(self.round(), self.state)
        self.state = self.outcome.state
        for name, running in self.workers.items():
            if name not in unreached:
                remaining = [instance for instance in running if instance not in self.outcome.revoked[name]]
                self.workers[name] = [*self.outcome.assigned[name], *remaining]
        return self.outcome

    def settle(self, limit: int = 8) -> int:
        """Run rounds after each delay until a round changes nothing; return the number of rounds with changes."""
        for count in range(limit):
            outcome = self.rebalance()
            self.now_ms += outcome.delay_ms
            if not (any(outcome.assigned.values()) or any(outcome.revoked.values()) or outcome.delay_ms):
                return count
        raise AssertionError(f"instances still move after {limit} rounds")

    def list_instances(self, name: str) -> set[str]:
        """Return the names of the connectors and the ids of the tasks of a worker."""
        return set(map(text, self.workers[name]))

    def find_workers(self, instance_id: str) -> list[str]:
        """Return the workers that run a connector or task."""
        return [name for name, running in self.workers.items() if parse_instance(instance_id) in running]

    def running(self) -> Counter[ConnectorOrTask]:
        """Return the number of workers that run each instance."""
        return Counter(instance for running in self.workers.values() for instance in running)

    def revoked(self) -> dict[str, set[str]]:
        """Return the instances revoked from each worker in the last round."""
        return {
            name: set(map(text, revoked_instances))
            for name, revoked_instances in self.last.revoked.items()
            if revoked_instances
        }

    def assigned(self) -> dict[str, set[str]]:
        """Return the instances assigned to each worker in the last round."""
        return {
            name: set(map(text, assigned_instances))
            for name, assigned_instances in self.last.assigned.items()
            if assigned_instances
        }

    def check_stable(self) -> None:
        """Run a round and check that it changes nothing."""
        self.rebalance()
        assert (self.assigned(), self.revoked(), self.last.delay_ms) == ({}, {}, 0)


def text(instance: ConnectorOrTask) -> str:
    """Format a connector as its name, a task as its id."""
    return instance.connector if instance.task == CONNECTOR else f"{instance.connector}-{instance.task}"


def count_connectors_and_tasks(running: Iterable[ConnectorOrTask]) -> tuple[int, int]:
    """Return the numbers of connectors and of tasks."""
    kinds = Counter(instance.task == CONNECTOR for instance in running)
    return kinds[True], kinds[False]
