"""The batch engine, which runs tasks as Spark jobs."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kraal.config.clients.restrictions import check_urls
from kraal.config.connector.batches import DEFAULT_POLL_MS, POLL_INTERVAL, sql_settings
from kraal.config.spark_master import is_local, is_warmup_enabled
from kraal.core.ids import Config, ConnectorName, Instance, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import EngineReady, EngineStarting, EngineState, Proof, Run, RunEvent, TaskSpec
from kraal.engine.context import ExecutorContext, LeaveGroup
from kraal.engine.executor import ABANDON_TIMEOUT_S, Executor
from kraal.engine.failure_trace import is_context_lost
from kraal.engine.kafka_io.coalescing import Coalescer
from kraal.engine.kafka_io.producers import Producers
from kraal.engine.lanes.lanes import Lanes
from kraal.engine.lanes.worker_producers import WorkerProducers
from kraal.engine.pace import Pace
from kraal.engine.runs import Runs
from kraal.engine.session.job_progress import JobProgress
from kraal.engine.session.jobs import JobGroup
from kraal.engine.session.session import Session, describe_state, make_scratch_directory
from kraal.engine.session.slots import Slots
from kraal.engine.spark_quarantine import SparkQuarantine
from kraal.engine.streaming.real_time_query import CHECKPOINTS
from kraal.engine.task_plugins import Chains, Plugins, task_class
from kraal.engine.task_run import TaskRun
from kraal.engine.thread_pool import WORKER_OWNER, Owner, Pool
from kraal.engine.timer import TimerThread
from kraal.engine.waiters import Waiters
from kraal.metrics.stalls.down_parts import DownPart
from kraal.metrics.thread_pools import PoolState
from kraal.plugins.api import SourceTask
from kraal.plugins.model.keyed_source import KeyedSource
from kraal.plugins.model.target import ReadableTarget

log = logging.getLogger(__name__)

JOB_THREADS = 8
CONTROL_THREADS = 4
"""Number of threads for plugins' `start` and `stop` and for commits, so that busy job threads do not delay these."""


@dataclass(frozen=True, slots=True)
class _WorkerProperties:
    """The worker's properties that plugins may read."""

    bootstrap_servers: str
    spark_is_local: bool
    scratch: str


def _await_join(settings: Mapping[str, str], group: str, member_id: str) -> None:
    """Log a message only: the client leaves the group once its member has joined."""
    del settings
    log.info("%s: Member %s leaves the group once it has joined", group, member_id)


class SparkEngine:
    """Implements `kraal.engine.api.Engine` on one Spark session."""

    def __init__(
        self,
        worker: Mapping[str, str],
        plugins: Plugins,
        jars: Callable[[], Sequence[Path]],
        *,
        chains: Chains,
        leave: LeaveGroup | None = None,
        scratch: str | None = None,
        archive: Path | None = None,
        at_once: bool = True,
    ) -> None:
        """Start Spark in the background.

        Args:
            worker: the resolved worker config: brokers, converters, `producer.*`, `consumer.*`, `spark.*`.
            plugins: finds plugin classes.
            chains: creates a connector's transforms; called when its tasks open.
            jars: returns the jar files for Spark, and may download them; called on the session's thread.
            leave: removes a joining member from its group; None to wait until the member has joined.
            scratch: a directory that only this worker uses; None to create a temporary one.
            archive: the class archive (`kraal prepare`), which shortens the startup of the JVM.
            at_once: whether Spark starts now rather than on demand. On demand, Spark starts when tasks are about to
                run if warm-up is enabled or the master is a cluster, and otherwise with the first batch that requires
                Spark.
        """
        directory = make_scratch_directory(scratch)
        shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)
        self._lock = threading.Lock()
        self._runs = Runs()
        self.remove_run = self._runs.remove
        self._listeners: list[Callable[[EngineState], None]] = []
        self._was_up = self._has_been_up = self._closed = False
        self._is_local = is_local(worker)
        self._starts_early = is_warmup_enabled(worker) or not self._is_local
        self.pool = Pool(CONTROL_THREADS, "kraal-control")
        self.poller = TimerThread()
        self.waiters = Waiters()
        self.quarantine = SparkQuarantine()
        self._jobs = Pool(JOB_THREADS, "kraal-job")
        self._canceller = Pool(1, "kraal-cancel")
        self._slots = Slots()
        self._session = Session(worker, jars, directory, self._notify, self._is_awaited, archive)
        self.coalescer = Coalescer(self._session, self._jobs, self._canceller, self.poller.call_later)
        self.lanes = Lanes(self._session, self.coalescer, self._canceller, is_local=self._is_local)
        self.worker_producers = WorkerProducers(self.coalescer.put, is_local=self._is_local)
        self._context = self._make_context(worker, plugins, chains, leave or _await_join, str(directory))
        if at_once:
            self._session.start()

    @property
    def state(self) -> EngineState:
        """The current state; `EngineReady` if Spark was not started, because tasks start it on demand."""
        return self._session.state if self._session.is_started else EngineReady()

    def pools(self) -> Sequence[PoolState]:
        """Return the state of each thread pool, with its stuck calls. Thread-safe; does not block."""
        return [*(pool.state() for pool in self._pools()), self.poller.state()]

    def down(self) -> Sequence[DownPart]:
        """Return the parts that are down: Spark, or the lane for small batches. Thread-safe; does not block."""
        return [part for part in (self._session.down(), self.lanes.down()) if part is not None]

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Call `changed` with each new state, on the session's thread."""
        with self._lock:
            self._listeners.append(changed)

    def is_ready_for(self, connectors: Iterable[Config]) -> bool:
        """Return whether the tasks of these connectors can run. Thread-safe; returns at once.

        If warm-up is enabled or the master is a cluster, Spark starts with the first connector, and tasks wait for
        Spark. Otherwise, Spark starts with the first batch that requires it.
        """
        if not self._starts_early:
            return True
        if any(True for _ in connectors):
            self._session.start()
        return isinstance(self._session.state, EngineReady)

    def waiting_reason(self) -> str | None:
        """Return why Spark is not up; None if it is up or was not started."""
        state = self.state
        return state.reason if isinstance(state, EngineStarting) else None

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Open a task. Returns at once.

        Cancels older runs of the task, whose actors have died; the new run starts once they are over.
        """
        if self._starts_early:
            self._session.start()
        owner = Owner(str(spec.task))
        run = TaskRun(self, owner, spec, lambda: self._make_executor(owner, spec, offsets), report)
        self._runs.add(run)
        return run

    def abandon(self, instance: Instance) -> None:
        """Cancel the open runs of a task whose actor has died, and clear the task's quarantine. Ignores connectors."""
        if not isinstance(instance, TaskId):
            return
        self.quarantine.clear(instance)
        for run in self._runs.list_by_task(instance):
            run.cancel()

    def close(self, timeout_s: float) -> None:
        """Cancel all runs, and stop Spark and all threads; blocks for at most about `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        self._closed = True
        for run in self._runs.list_all():
            run.cancel()
        self.lanes.close()
        self.worker_producers.close()
        while self._runs.list_all() and time.monotonic() < deadline - timeout_s / 2:
            threading.Event().wait(0.02)
        self._session.close(max(1.0, deadline - time.monotonic()))
        self.poller.close(1.0)
        self.waiters.close()
        for pool in self._pools():
            pool.close(max(0.1, deadline - time.monotonic()))

    # --- run_host.Host --------------------------------------------------------------------------------------

    def spark_unavailable_reason(self) -> str | None:
        """Return why Spark is unavailable, or None if it is available."""
        state = self._session.state
        return state.reason if isinstance(state, EngineStarting) else None

    def await_at_open(self) -> str | None:
        """Return why opened runs must wait for Spark; None if Spark is up, or if it starts on demand."""
        return self.spark_unavailable_reason() if self._has_been_up or not self._is_local else None

    def failure_cause(self, error: BaseException) -> str | None:
        """Return why Spark ended if its JVM is dead or dying, otherwise None.

        Kills a JVM that has lost its SparkContext.
        """
        if reason := self.spark_unavailable_reason():
            return reason
        if is_context_lost(error):
            self._session.kill("its SparkContext was shut down")
        spark = self._session.current
        if spark is not None and spark.is_alive(1.0):
            return None
        for _ in range(50):
            if reason := self.spark_unavailable_reason():
                return reason
            threading.Event().wait(0.02)
        return "Spark's JVM ended"

    def abandon_calls(self, owner: Owner) -> None:
        """Replace the threads that an ended run's calls occupy.

        Checks again later if more calls of the run are queued, because these may hang as well.
        """
        has_queued = [
            pool.abandon(owner) for pool in self._pools()
        ]  # a list, so that `abandon` is called on each pool
        if any(has_queued):
            self.poller.call_later(ABANDON_TIMEOUT_S, lambda: self.abandon_calls(owner))

    def _make_executor(
        self, owner: Owner, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset]
    ) -> Executor:
        """Create the executor for a spec.

        Raises HeapExhausted for a task that must not run again, ConfigInvalid, and the registry's errors for unknown
        plugins.
        """
        # Imported with the first task, because these modules import Arrow, which would delay the REST API's startup.
        from kraal.engine.sink.executor import SinkExecutor  # noqa: PLC0415 - see above
        from kraal.engine.source.exactly_once import TransactionalSourceExecutor  # noqa: PLC0415 - see above
        from kraal.engine.source.executor import SourceExecutor  # noqa: PLC0415 - see above
        from kraal.engine.streaming.real_time_executor import StreamExecutor  # noqa: PLC0415 - see above

        self.quarantine.check(spec.task)
        check_urls(self._context.worker, spec.connector_config)
        context = replace(self._context, jobs=self._jobs.share_for(owner))
        canceller = self._canceller.share_for(owner)
        task_type, version = task_class(context.plugins, spec)
        group = JobGroup(self._session, spec.task, canceller, sql_settings(spec.connector_config))
        if issubclass(task_type, SourceTask) and task_type.is_stream(spec.connector_config):
            # Spark writes the records of a stream, outside the task's transactions.
            if spec.transactions is not None:
                log.warning("%s: Real-time mode delivers records at least once", spec.task)
                spec.transactions.close()
            return StreamExecutor(spec, task_type, version, offsets, context, group, self._slots, canceller)
        group.watch(
            JobProgress(self.poller.call_later, canceller, partial(spec.working, busy=True, progress=True))
        )
        if issubclass(task_type, SourceTask):
            executor_type = SourceExecutor if spec.transactions is None else TransactionalSourceExecutor
            return executor_type(spec, task_type, version, offsets, context, group)
        return SinkExecutor(spec, task_type, version, context, group)

    def open_proof(self, spec: TaskSpec, target: ReadableTarget | None = None) -> Proof:
        """Prepare a proof, and start Spark. See `kraal.engine.api.ProvingEngine`."""
        from kraal.engine.proof.sink import SinkProof  # noqa: PLC0415 - see _make_executor
        from kraal.engine.proof.source import SourceProof  # noqa: PLC0415 - as above

        group = self._start_proof(spec)
        if target is not None:
            return SinkProof(self._context, spec, group, target)
        kind = self._context.plugins.connector_class(spec.connector_config["connector.class"]).kind
        return (SinkProof if kind == "sink" else SourceProof)(self._context, spec, group)

    def open_keyed_proof(self, spec: TaskSpec, source: KeyedSource) -> Proof:
        """Prepare a proof of a source with keys, and start Spark. See `kraal.engine.api.ProvingEngine`."""
        from kraal.engine.proof.keyed import KeyedProof  # noqa: PLC0415 - as above

        return KeyedProof(self._context, spec, self._start_proof(spec), source)

    def _start_proof(self, spec: TaskSpec) -> JobGroup:
        """Start Spark; return the group of the jobs of a proof."""
        check_urls(self._context.worker, spec.connector_config)
        self._session.start()
        canceller = self._canceller.share_for(WORKER_OWNER)
        task = TaskId(ConnectorName(f"{spec.task.connector} proof"), 0)  # not the pool of a task that runs
        return JobGroup(self._session, task, canceller, sql_settings(spec.connector_config))

    def _make_context(
        self, worker: Mapping[str, str], plugins: Plugins, chains: Chains, leave: LeaveGroup, scratch: str
    ) -> ExecutorContext:
        """Create the context for executors."""
        return ExecutorContext(
            worker=worker,
            plugins=plugins,
            chains=chains,
            view=_WorkerProperties(worker.get("bootstrap.servers", ""), self._is_local, scratch),
            jobs=self._jobs.share_for(WORKER_OWNER),
            coalescer=self.coalescer,
            lanes=self.lanes,
            worker_producers=self.worker_producers,
            producers=Producers(self._session, self._canceller, in_executors=not self._is_local),
            leave=leave,
            poll_interval_s=float(worker.get(POLL_INTERVAL) or DEFAULT_POLL_MS) / 1000,
            pace=Pace(time.monotonic),
            timer=self.poller,
        )

    def _is_awaited(self) -> bool:
        """Return whether a run waits for Spark."""
        return any(run.waits_for_spark for run in self._runs.list_all())

    def _pools(self) -> tuple[Pool, ...]:
        return (self._jobs, self.pool, self._canceller)

    def _notify(self, state: EngineState) -> None:
        if isinstance(state, EngineStarting):
            self.quarantine.spark_ended(out_of_memory=state.out_of_memory)
        with self._lock:
            runs, listeners = self._runs.list_all(), list(self._listeners)
            lost = self._was_up and isinstance(state, EngineStarting)
            self._was_up = isinstance(state, EngineReady)
            self._has_been_up = self._has_been_up or self._was_up
        if not self._closed:
            for run in runs:
                if isinstance(state, EngineReady):
                    run.on_spark_ready()
                else:
                    run.on_spark_unavailable(describe_state(state), lost=lost)
        for listener in listeners:
            listener(state)
