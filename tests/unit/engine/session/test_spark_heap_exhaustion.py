"""Tests for identifying the task that exhausts Spark's heap, and for the turns that suspected tasks take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import pytest

from kraal.cluster.decisions.failures import Failure, classify
from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.api import BatchDone
from kraal.engine.executor import JobLauncher, JobResult
from kraal.engine.session.session import SparkUnavailable
from kraal.engine.session.spark_heap_exhaustion import (
    HeapRules,
    Suspect,
    blame_tasks,
    clear_deaths,
    heap_exhaustion_message,
    must_take_turns,
    quarantine_message,
)
from kraal.engine.spark_quarantine import HeapExhausted, SparkQuarantine
from kraal.plugins.api import RetriableError

RULES = HeapRules(max_deaths=3, quarantine_s=600.0)
A, B, C = (TaskId(ConnectorName(name), 0) for name in "abc")
DONE = BatchDone(offsets={}, records=1, topics=frozenset(), duration_s=0.0)
JVM_ENDED = SparkUnavailable("Spark's JVM ended")


def test_each_running_task_becomes_a_suspect() -> None:
    verdict = blame_tasks({}, [A, B], 10.0, RULES)
    assert verdict.suspects == {A: Suspect(1, 10.0), B: Suspect(1, 10.0)}
    assert verdict.guilty == frozenset()


def test_finished_batch_resets_the_jvm_deaths_of_a_task() -> None:
    suspects = blame_tasks({}, [A, B], 1.0, RULES).suspects
    suspects = blame_tasks(clear_deaths(suspects, B), [A, B], 2.0, RULES).suspects
    verdict = blame_tasks(clear_deaths(suspects, B), [A, B], 3.0, RULES)
    assert verdict.guilty == {A}
    assert verdict.suspects == {B: Suspect(1, 3.0)}


def test_expired_jvm_deaths_do_not_count() -> None:
    suspects = blame_tasks({}, [A], 0.0, RULES).suspects
    suspects = blame_tasks(suspects, [A], 1.0, RULES).suspects
    assert blame_tasks(suspects, [A], 700.0, RULES).suspects == {A: Suspect(1, 700.0)}


def test_only_suspects_take_turns_during_the_quarantine() -> None:
    suspects = clear_deaths(blame_tasks({}, [A], 0.0, RULES).suspects, A)
    assert must_take_turns(suspects, A, 599.0, RULES)
    assert not must_take_turns(suspects, A, 600.0, RULES)
    assert not must_take_turns(suspects, B, 1.0, RULES)


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    [
        pytest.param(
            3,
            "Terminating due to java.lang.OutOfMemoryError: Java heap space\n",
            "Java heap space",
            id="message of Java",
        ),
        pytest.param(
            3,
            "java.lang.OutOfMemoryError: Metaspace\nTerminating due to java.lang.OutOfMemoryError: GC overhead\r\n",
            "GC overhead",
            id="last of several messages",
        ),
        pytest.param(3, "", "out of memory", id="no output"),
        pytest.param(52, "java.lang.OutOfMemoryError\n", "out of memory", id="exit code of Spark"),
        pytest.param(
            -9,
            "java.lang.OutOfMemoryError: Java heap space",
            None,
            id="killed by a signal",
        ),
        pytest.param(1, "Error: could not find java", None, id="another exit code"),
    ],
)
def test_heap_exhaustion_is_detected_by_exit_code_and_output(
    code: int, output: str, expected: str | None
) -> None:
    assert heap_exhaustion_message(code, output) == expected


def test_heap_exhaustion_is_a_permanent_failure() -> None:
    assert classify(f"HeapExhausted: {quarantine_message(RULES)}\n  in task a-0, start") is Failure.PERMANENT


@dataclass
class ManualExecutor:
    """An executor whose jobs end on demand."""

    has_work: bool = True
    running_jobs: list[Callable[[JobResult], None]] = field(default_factory=list)
    polls: list[bool] = field(default_factory=list)
    poll_interval_s: float = 0.01
    pause_s: float = 0.0
    can_wait: bool = False
    polls_when_idle: bool = False
    has_pending_commit: bool = False
    is_flowing: bool = False
    can_skip_poll: Callable[[], bool] | None = None

    def open(self) -> str | None:
        return None

    def poll(self, *, requested: bool) -> JobLauncher | None:
        self.polls.append(requested)
        return self.running_jobs.append if self.has_work and requested else None

    def wait(self) -> None:
        pass

    def commit(self, offsets: object) -> None: ...

    def close(self) -> None: ...

    def cancel(self) -> None: ...

    def finish_soon(self) -> None: ...

    def interrupt(self) -> bool:
        return False


@dataclass
class Harness:
    """A quarantine with a manual clock, and the executors of its tasks."""

    now_s: float = 0.0
    executors: dict[TaskId, ManualExecutor] = field(
        default_factory=lambda: {task: ManualExecutor() for task in (A, B, C)}
    )
    outcomes: list[tuple[TaskId, JobResult]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.quarantine = SparkQuarantine(RULES, now=lambda: self.now_s)

    def begin(self, task: TaskId) -> bool:
        """Poll the executor of a task, and launch its job. Return False if the poll returned no job."""
        launch = self.quarantine.poll(task, self.executors[task], requested=True)
        if launch is not None:
            self.launch(task, launch)
        return launch is not None

    def launch(self, task: TaskId, job: JobLauncher) -> None:
        """Launch a polled job, or record the error if the job must wait."""
        executor = self.executors[task]
        error = self.quarantine.begin(task, executor)
        if error is None:
            job(partial(self._finish, task, executor))
        else:
            self.outcomes.append((task, error))

    def _finish(self, task: TaskId, executor: ManualExecutor, outcome: JobResult) -> None:
        self.quarantine.end(task, executor, outcome)
        self.outcomes.append((task, outcome))

    def end(self, task: TaskId, outcome: JobResult = DONE) -> None:
        self.executors[task].running_jobs.pop()(outcome)

    def exhaust(self, tasks: Iterable[TaskId]) -> frozenset[TaskId]:
        """Exhaust the heap while these tasks are running, and return the guilty tasks.

        The jobs end before the cause is known.
        """
        for task in tasks:
            assert self.begin(task)
        for task in tasks:
            self.end(task, JVM_ENDED)
        return self.quarantine.spark_ended(out_of_memory=True)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_guilty_task_is_identified_among_running_tasks(harness: Harness) -> None:
    assert harness.exhaust([A, B, C]) == frozenset()
    assert harness.begin(A)
    assert not harness.begin(B), "one suspect runs at a time"
    harness.end(A)
    assert harness.begin(B)
    harness.end(B)
    assert harness.exhaust([C]) == frozenset()
    assert harness.begin(B)
    harness.end(B)
    assert harness.exhaust([C]) == {C}
    with pytest.raises(HeapExhausted, match="3 times in a row, Spark's JVM ran out of memory"):
        harness.begin(C)
    assert harness.begin(A)
    harness.end(A)


def test_other_tasks_run_while_a_suspect_runs(harness: Harness) -> None:
    harness.exhaust([A])
    assert harness.begin(A)
    assert harness.begin(B)
    assert harness.begin(C)


def test_unused_turn_is_released(harness: Harness) -> None:
    harness.exhaust([A, B])
    harness.executors[A].has_work = False
    assert not harness.begin(A)
    assert harness.begin(B)


def test_sink_without_its_turn_stays_in_its_group(harness: Harness) -> None:
    harness.exhaust([A, B])
    assert harness.begin(A)
    harness.executors[B].polls_when_idle = True
    harness.executors[B].polls.clear()
    assert not harness.begin(B)
    assert harness.executors[B].polls == [False]


def test_retried_batch_waits_for_its_turn(harness: Harness) -> None:
    harness.exhaust([A, B])
    launch = harness.quarantine.poll(A, harness.executors[A], requested=True)
    assert launch is not None
    harness.launch(A, launch)
    harness.end(A, RetriableError("the sink is unavailable"))
    assert harness.begin(B)
    harness.launch(A, launch)
    assert isinstance(harness.outcomes[-1][1], RetriableError)
    assert harness.executors[A].running_jobs == []
    harness.end(B)
    harness.launch(A, launch)
    assert len(harness.executors[A].running_jobs) == 1


def test_jvm_death_without_heap_exhaustion_creates_no_suspects(harness: Harness) -> None:
    for _ in range(5):
        assert harness.begin(A)
        assert harness.begin(B)
        harness.end(A, JVM_ENDED)
        harness.end(B, JVM_ENDED)
        assert harness.quarantine.spark_ended(out_of_memory=False) == frozenset()
    assert harness.exhaust([C]) == frozenset()
    assert harness.begin(A)
    assert harness.begin(B)


def test_task_whose_job_failed_earlier_is_not_a_suspect(harness: Harness) -> None:
    for _ in range(4):
        assert harness.begin(A)
        harness.end(A, ValueError("a bad record"))
        harness.quarantine.spark_ended(out_of_memory=True)
    assert harness.begin(A)


def test_restarted_task_has_no_history(harness: Harness) -> None:
    assert [harness.exhaust([A]) for _ in range(3)] == [frozenset(), frozenset(), {A}]
    harness.quarantine.clear(A)
    assert harness.exhaust([A]) == frozenset()
    assert harness.exhaust([A]) == frozenset()
    assert harness.exhaust([A]) == {A}


def test_turn_ends_with_the_quarantine_of_its_task(harness: Harness) -> None:
    harness.exhaust([A])
    harness.now_s = 300.0
    harness.exhaust([B])
    assert harness.begin(A)
    assert not harness.begin(B)
    harness.now_s = 601.0
    assert harness.begin(B), "A is no longer a suspect, and its job is an ordinary one"


def test_late_result_of_an_abandoned_run_does_not_affect_the_next_run(harness: Harness) -> None:
    harness.exhaust([A, B])
    assert harness.begin(A)
    abandoned_executor = harness.executors[A]
    harness.executors[A] = ManualExecutor()  # the task is restarted while its first job hangs
    assert harness.begin(A)
    abandoned_executor.running_jobs.pop()(DONE)
    assert not harness.begin(B), "the second run takes its turn"
    harness.quarantine.release_turn(abandoned_executor)
    assert not harness.begin(B)
    harness.end(A)
    assert harness.begin(B)
