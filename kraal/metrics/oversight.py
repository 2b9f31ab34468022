"""What is told beside Connect's states: what is restarted by itself, and which tasks make no progress. Pure.

Both are known to the worker that runs an instance, and to no other: nothing of it is in the topics that workers
share, for Java's read them too. A task is *stalled* when it runs and has been at one step for longer than
`task.stall.timeout.ms`: a poll of a source, a batch, which a sink begins when there are records for it, or a commit.
An idle task is at none, however long it has been idle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.cluster.supervision import Watched, applies, recent, why_given_up
from kraal.cluster.view import task_state
from kraal.config.supervision import AutoRestart, policy_of
from kraal.ids import ConnectorName, Instance, Json, State, TaskId

if TYPE_CHECKING:
    from kraal.cluster.snapshot import Snapshot
    from kraal.metrics.board import Board, Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How one task gets on. Seconds; None: nothing is being done, or nothing was done in this life."""

    step_s: float | None = None
    """How long it has been at the same step."""
    batch_age_s: float | None = None
    """How long ago its latest batch was written."""
    stalled: bool = False


def progress_of(picture: Picture, task: TaskId, state: State, now_s: float, stall_s: float) -> Progress:
    """Say how a task of this worker gets on; `state` is the one that REST shows."""
    numbers = picture.tasks.get(task)
    begins = (picture.working.get(task), None if numbers is None else numbers.committing_s)
    since_s = min((each for each in begins if each is not None), default=None)
    step_s = None if since_s is None else max(now_s - since_s, 0.0)
    batch_s = None if numbers is None else numbers.batch_s
    late = step_s is not None and 0 < stall_s < step_s
    return Progress(
        step_s=step_s,
        batch_age_s=None if batch_s is None else max(now_s - batch_s, 0.0),
        stalled=late and state is State.RUNNING,
    )


def progress(
    snapshot: Snapshot, picture: Picture, now_s: float, stall_s: float
) -> Iterator[tuple[TaskId, Progress]]:
    """Say how each task of this worker gets on, in the order of names and numbers."""
    tasks = [each for each in picture.living if isinstance(each, TaskId)]
    for task in sorted(tasks):
        yield task, progress_of(picture, task, task_state(snapshot, task), now_s, stall_s)


@dataclass(frozen=True, slots=True)
class Oversight:
    """Answers from what is published. Any thread; asks nobody."""

    board: Board
    policy: AutoRestart
    """The worker's."""

    def status(self, snapshot: Snapshot, name: ConnectorName) -> dict[str, Json]:
        """What `GET /connectors/{c}/status?expand=supervision` adds: of what runs, or has failed, here.

        Shape: `policy`, then `connector` if its instance is here, and `tasks`, each with its `id` and this worker's.
        """
        now_s = self.board.time.now()
        picture = self.board.picture()
        entry = snapshot.config.connectors.get(name)
        policy = self.policy if entry is None else policy_of(entry.config, self.policy)
        found: dict[str, Json] = {"policy": _policy(policy)}
        here: dict[str, Json] = {"worker_id": snapshot.worker_id}
        if name in picture.living:
            found["connector"] = here | _restarts(policy, name, snapshot.watched.get(name), now_s)
        tasks: list[Json] = []
        for task in sorted(
            each for each in picture.living if isinstance(each, TaskId) and each.connector == name
        ):
            getting_on = progress_of(picture, task, task_state(snapshot, task), now_s, self.board.stall_s)
            tasks.append(
                {
                    "id": task.task,
                    **here,
                    **_restarts(policy, task, snapshot.watched.get(task), now_s),
                    "stalled": getting_on.stalled,
                    "step_ms": _ms(getting_on.step_s),
                    "last_batch_age_ms": _ms(getting_on.batch_age_s),
                }
            )
        found["tasks"] = tasks
        return found

    def stalled(self, snapshot: Snapshot) -> list[Json]:
        """What `GET /health` adds when there is anything: the tasks of this worker that are stalled."""
        now_s = self.board.time.now()
        each = progress(snapshot, self.board.picture(), now_s, self.board.stall_s)
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
