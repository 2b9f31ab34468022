"""Status information in addition to Connect's states: automatic restarts, and tasks without progress. Pure.

Only the worker that runs an instance knows both: they are not in the topics that workers share because Java workers
read these too. A task is *stalled* if it runs and has been at one step for longer than `task.stall.timeout.ms`: a
source's poll, a batch, which a sink starts when it has records, or a commit. An idle task is never stalled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.cluster.decisions.auto_restart import Watched, applies, recent, why_given_up
from kraal.cluster.views.rest import task_state
from kraal.config.connector.auto_restart import AutoRestart, policy_of
from kraal.core.ids import ConnectorName, Instance, Json, State, TaskId
from kraal.metrics.thread_pools import PoolState, why_unhealthy

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.metrics.registry import CurrentMetrics, MetricsRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a task, in seconds; None if the task is idle, or wrote no batch in this run."""

    step_s: float | None = None
    """Time spent at the current step."""
    batch_age_s: float | None = None
    """Time since the latest batch was written."""
    way: str | None = None
    """How the latest batch was carried out, and why."""
    stalled: bool = False


def progress_of(
    current: CurrentMetrics, task: TaskId, state: State, now_s: float, stall_s: float
) -> Progress:
    """Return the progress of a task of this worker; `state` is that of the REST API."""
    numbers = current.tasks.get(task)
    begins = (current.working.get(task), None if numbers is None else numbers.committing_s)
    since_s = min((each for each in begins if each is not None), default=None)
    step_s = None if since_s is None else max(now_s - since_s, 0.0)
    batch_s = None if numbers is None else numbers.batch_s
    late = step_s is not None and 0 < stall_s < step_s
    return Progress(
        step_s=step_s,
        batch_age_s=None if batch_s is None else max(now_s - batch_s, 0.0),
        way=None if numbers is None else numbers.way or None,
        stalled=late and state is State.RUNNING,
    )


def progress(
    snapshot: Snapshot, current: CurrentMetrics, now_s: float, stall_s: float
) -> Iterator[tuple[TaskId, Progress]]:
    """Yield the progress of each task of this worker, sorted by name and number."""
    tasks = [each for each in current.living if isinstance(each, TaskId)]
    for task in sorted(tasks):
        yield task, progress_of(current, task, task_state(snapshot, task), now_s, stall_s)


@dataclass(frozen=True, slots=True)
class StallDetection:
    """Detects stalls from published metrics. Thread-safe; sends no messages."""

    metrics: MetricsRegistry
    policy: AutoRestart
    """The worker's policy."""
    pools: Callable[[], Sequence[PoolState]] = tuple
    """Returns the states of thread pools, including threads held by stuck calls."""

    def why_unhealthy(self) -> str | None:
        """Return why `GET /health` fails although the herder responds; None if it does not fail."""
        return why_unhealthy(self.pools())

    def status(self, snapshot: Snapshot, name: ConnectorName) -> dict[str, Json]:
        """Return the part added by `GET /connectors/{c}/status?expand=supervision`, for instances of this worker.

        Shape: `policy`, then `connector` if its instance is here, and `tasks`, each with its `id` and the worker's id.
        """
        now_s = self.metrics.time.now()
        current = self.metrics.current()
        entry = snapshot.config.connectors.get(name)
        policy = self.policy if entry is None else policy_of(entry.config, self.policy)
        found: dict[str, Json] = {"policy": _policy(policy)}
        here: dict[str, Json] = {"worker_id": snapshot.worker_id}
        if name in current.living:
            found["connector"] = here | _restarts(policy, name, snapshot.watched.get(name), now_s)
        tasks: list[Json] = []
        for task in sorted(
            each for each in current.living if isinstance(each, TaskId) and each.connector == name
        ):
            state_of_task = progress_of(
                current, task, task_state(snapshot, task), now_s, self.metrics.stall_s
            )
            tasks.append(
                {
                    "id": task.task,
                    **here,
                    **_restarts(policy, task, snapshot.watched.get(task), now_s),
                    "stalled": state_of_task.stalled,
                    "step_ms": _ms(state_of_task.step_s),
                    "last_batch_age_ms": _ms(state_of_task.batch_age_s),
                    "last_batch_way": state_of_task.way,
                }
            )
        found["tasks"] = tasks
        return found

    def stalled(self, snapshot: Snapshot) -> list[Json]:
        """Return the stalled tasks of this worker, which `GET /health` adds if there are any."""
        now_s = self.metrics.time.now()
        each = progress(snapshot, self.metrics.current(), now_s, self.metrics.stall_s)
        return [
            {
                "connector": task.connector,
                "task": task.task,
                "step_ms": _ms(found.step_s),
                "last_batch_age_ms": _ms(found.batch_age_s),
            }
            for task, found in each
            if found.stalled
        ]


def _policy(policy: AutoRestart) -> dict[str, Json]:
    return {
        "restart": policy.restarted.value,
        "max": policy.most,
        "window_ms": round(policy.window_s * 1000),
        "backoff_ms": round(policy.backoff_s * 1000),
    }


def _restarts(
    policy: AutoRestart, instance: Instance, watched: Watched | None, now_s: float
) -> dict[str, Json]:
    given_up = None if watched is None else watched.given_up
    return {
        "supervised": applies(policy, instance),
        "restarts": 0 if watched is None else watched.total,
        "restarts_in_window": 0 if watched is None else len(recent(policy, watched.restarts, now_s)),
        "last_restart_ms": None if watched is None else watched.restarted_ms,
        "next_restart_ms": None if watched is None else watched.due_ms,
        "given_up": None if given_up is None else given_up.value,
        "why": None if given_up is None else why_given_up(policy, given_up),
    }


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
