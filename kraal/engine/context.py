"""The context that the engine passes to executors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from kraal.config.connector.batches import Batches, parse_batches
from kraal.config.connector.source import BY_INTERVAL, parse_boundary
from kraal.engine.api import TaskSpec
from kraal.engine.executor import JobLauncher, JobResult, run_job
from kraal.engine.kafka_io.coalescing import Coalescer
from kraal.engine.kafka_io.producers import Producers
from kraal.engine.lanes.lanes import Lanes
from kraal.engine.lanes.worker_producers import WorkerProducers
from kraal.engine.pace import Pace
from kraal.engine.task_plugins import Chains, Plugins
from kraal.engine.thread_pool import Share
from kraal.engine.timer import TimerThread
from kraal.plugins.api import TaskContext, WorkerView

LeaveGroup = Callable[[Mapping[str, str], str, str], None]
"""Removes a member from its group over a separate connection. Arguments: consumer settings, group id, member id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorContext:
    """Resources of executors. All runs share them, except that each run has a separate share of the job threads."""

    worker: Mapping[str, str]
    plugins: Plugins
    chains: Chains
    view: WorkerView
    jobs: Share
    """The share of the job threads for the run that receives this context."""
    coalescer: Coalescer
    lanes: Lanes
    worker_producers: WorkerProducers
    producers: Producers
    leave: LeaveGroup
    poll_interval_s: float
    pace: Pace
    timer: TimerThread

    def call_later(self, delay_s: float, function: Callable[[], object]) -> None:
        """Call a function after a number of seconds, on the timer thread."""
        self.timer.call_later(delay_s, function)

    def task_context(self, spec: TaskSpec) -> TaskContext:
        """Return the context that the plugin of a task receives."""
        return TaskContext(
            connector=spec.task.connector,
            task=spec.task.task,
            worker=self.view,
            connector_config=spec.connector_config,
            max_records=self.batches(spec).max_records,
            report_table=spec.report_table,
        )

    def batches(self, spec: TaskSpec) -> Batches:
        """Return the batch settings of a task."""
        return parse_batches(
            spec.connector_config, self.worker, transactional=has_transaction_per_batch(spec)
        )

    def run(self, function: Callable[[], JobResult], done: Callable[[JobResult], None]) -> None:
        """Run a function on a job thread and pass its result to `done`. Returns at once."""
        self.jobs.submit(lambda: done(run_job(function)))

    def launch(self, function: Callable[[], JobResult]) -> JobLauncher:
        """Return a launcher that runs `function` on a job thread."""
        return partial(self.run, function)


def has_transaction_per_batch(spec: TaskSpec) -> bool:
    """Return whether a task writes each batch in a separate transaction."""
    return spec.transactions is not None and parse_boundary(spec.connector_config) != BY_INTERVAL
