"""A group with static assignments: workers that follow and report their assignments, and a leader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kraal.cluster.assignment.rebalance import AssignorState, Outcome, Round
from kraal.cluster.assignment.static import assign_statically
from kraal.config.worker.distributed_keys import parse_static_task
from kraal.core.ids import ConnectorName
from kraal.protocol.group import CONNECTOR, Job

FIVE_MINUTES_MS = 300_000

Assign = Callable[[Round, AssignorState], Outcome]


def job(text: str) -> Job:
    """Return the job for a text: `c1-0` is a task, `c1` is a connector. Connector names must not contain hyphens."""
    task = parse_static_task(text)
    return Job(ConnectorName(text)) if task is None else Job(ConnectorName(task[0]), task[1])


def jobs(text: str) -> frozenset[Job]:
    """Return the jobs for texts that are separated by spaces."""
    return frozenset(map(job, text.split()))


@dataclass
class StaticScenario:
    """A leader, and workers with their jobs. `lists` contains the static assignments of the current workers."""

    connectors: dict[str, int] = field(default_factory=lambda: {"c1": 2, "c2": 2})
    """Number of tasks by connector."""
    max_delay_ms: int = FIVE_MINUTES_MS
    assign: Assign = assign_statically
    workers: dict[str, list[Job]] = field(default_factory=dict)
    lists: dict[str, frozenset[Job]] = field(default_factory=dict)
    state: AssignorState = field(default_factory=AssignorState)
    generation: int = 1_000
    now_ms: int = 50_000
    outcome: Outcome | None = None

    def join(self, name: str, listed: str = "", running: Iterable[Job] = ()) -> None:
        """Add a worker; `listed` contains its static jobs, separated by spaces."""
        self.workers[name] = list(running)
        if listed:
            self.lists[name] = jobs(listed)

    def leave(self, name: str) -> list[Job]:
        """Remove a worker; return its jobs."""
        self.lists.pop(name, None)
        return self.workers.pop(name)

    @property
    def configured(self) -> frozenset[Job]:
        """All configured jobs."""
        return frozenset(
            Job(ConnectorName(name), task)
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
            last_generation=self.generation - 1,
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
                remaining = [job_ for job_ in running if job_ not in self.outcome.revoked[name]]
                self.workers[name] = [*self.outcome.assigned[name], *remaining]
        return self.outcome

    def settle(self, limit: int = 8) -> int:
        """Run rounds after each delay until a round changes nothing; return the number of rounds with changes."""
        for count in range(limit):
            outcome = self.rebalance()
            self.now_ms += outcome.delay_ms
            if not (any(outcome.assigned.values()) or any(outcome.revoked.values()) or outcome.delay_ms):
                return count
        raise AssertionError(f"jobs still move after {limit} rounds")

    def list_jobs(self, name: str) -> set[str]:
        """Return the jobs of a worker as text."""
        return set(map(text, self.workers[name]))

    def find_workers(self, job_text: str) -> list[str]:
        """Return the workers that run a job."""
        return [name for name, running in self.workers.items() if job(job_text) in running]

    def running(self) -> Counter[Job]:
        """Return the number of workers that run each job."""
        return Counter(job_ for running in self.workers.values() for job_ in running)

    def revoked(self) -> dict[str, set[str]]:
        """Return the jobs revoked from each worker in the last round."""
        return {
            name: set(map(text, revoked_jobs))
            for name, revoked_jobs in self.last.revoked.items()
            if revoked_jobs
        }

    def assigned(self) -> dict[str, set[str]]:
        """Return the jobs assigned to each worker in the last round."""
        return {
            name: set(map(text, assigned_jobs))
            for name, assigned_jobs in self.last.assigned.items()
            if assigned_jobs
        }

    def check_stable(self) -> None:
        """Run a round and check that it changes nothing."""
        self.rebalance()
        assert (self.assigned(), self.revoked(), self.last.delay_ms) == ({}, {}, 0)


def text(job_: Job) -> str:
    """Format a job for users."""
    return job_.connector if job_.task == CONNECTOR else f"{job_.connector}-{job_.task}"


def count_jobs(running: Iterable[Job]) -> tuple[int, int]:
    """Return the numbers of connectors and of tasks."""
    kinds = Counter(job_.task == CONNECTOR for job_ in running)
    return kinds[True], kinds[False]
