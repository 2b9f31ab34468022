"""The batch engine: runs tasks as Spark jobs. Put together here; each part has a module of its own."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraal.config.batches import DEFAULT_POLL_MS, POLL_INTERVAL, sql_settings
from kraal.ids import TaskId
from kraal.offsets import Offset, SourcePartition
from kraal.plugins.api import SourceTask
from kraal.spark import settings
from kraal.spark.api import EngineReady, EngineStarting, EngineState, Run, RunEvent, TaskSpec
from kraal.spark.jobs import JobGroup
from kraal.spark.once import OnceWork
from kraal.spark.plugins import Chains, Plugins, task_class
from kraal.spark.poller import Poller
from kraal.spark.pool import Pool
from kraal.spark.probation import Probation
from kraal.spark.run import TaskRun
from kraal.spark.session import Session, reason_of, scratch_directory
from kraal.spark.sink_run import SinkWork
from kraal.spark.slots import Slots
from kraal.spark.source_run import Leave, Means, SourceWork
from kraal.spark.stream_query import CHECKPOINTS
from kraal.spark.stream_run import StreamWork
from kraal.spark.together import Together
from kraal.spark.trace import lost_context
from kraal.spark.work import Launch, Work

log = logging.getLogger(__name__)

JOB_THREADS = 8
CONTROL_THREADS = 4
"""For plugins' `start` and `stop` and for commits, so that busy job threads do not hold them up."""


@dataclass(frozen=True, slots=True)
class _View:
    """What plugins may know of the worker."""

    bootstrap_servers: str
    spark_is_local: bool
    scratch: str


def _wait(settings: Mapping[str, str], group: str, member_id: str) -> None:
    """Let the member's own client leave, when its join is over."""
    del settings
    log.info("%s: member %s waits for its join before it leaves", group, member_id)


class SparkEngine:
    """Implements `kraal.spark.api.Engine` on one Spark session."""

    def __init__(
        self,
        worker: Mapping[str, str],
        plugins: Plugins,
        jars: Callable[[], Sequence[Path]],
        *,
        chains: Chains,
        leave: Leave | None = None,
        scratch: str | None = None,
        archive: Path | None = None,
    ) -> None:
        """Start Spark in the background.

        Args:
            worker: the worker config, resolved: `bootstrap.servers`, default converters, `producer.*`,
                `consumer.*`, `spark.*`.
            plugins: finds plugin classes.
            chains: makes a connector's transforms; called when its tasks open.
            jars: names the jar files for Spark; called on the session's thread, may fetch them.
            leave: takes a sink task out of its group in the middle of a join; None lets it wait for the join.
            scratch: a directory of this worker's own; None makes a temporary one.
            archive: the file with Spark's classes (`kraal prepare`), which its JVM starts quicker with.
        """
        directory = scratch_directory(scratch)
        shutil.rmtree(directory / CHECKPOINTS, ignore_errors=True)
        self._lock = threading.Lock()
        self._runs: set[TaskRun] = set()
        self._behind: dict[TaskRun, set[TaskRun]] = {}
        """Runs that start when older runs of their task are over."""
        self._listeners: list[Callable[[EngineState], None]] = []
        self._was_up = False
        self._closed = False
        self.pool = Pool(CONTROL_THREADS, "kraal-control")
        self.poller = Poller()
        self.probation = Probation()
        self._jobs = Pool(JOB_THREADS, "kraal-job")
        self._canceller = Pool(1, "kraal-cancel")
        self._slots = Slots()
        self._session = Session(worker, jars, directory, self._changed, lambda: bool(self._runs), archive)
        self.together = Together(self._session, self._jobs, self._canceller, self.poller.after)
        view = _View(worker.get("bootstrap.servers", ""), settings.is_local(worker), str(directory))
        self._means = Means(
            worker=worker,
            plugins=plugins,
            chains=chains,
            view=view,
            jobs=self._jobs,
            together=self.together,
            leave=leave or _wait,
            poll_interval_s=float(worker.get(POLL_INTERVAL) or DEFAULT_POLL_MS) / 1000,
        )
        self._session.start()

    @property
    def state(self) -> EngineState:
        """Whether jobs can run now."""
        return self._session.state

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Call `changed` with every later state, on the session's thread."""
        with self._lock:
            self._listeners.append(changed)

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Open one task; returns at once. An older run of the same task ends first: its actor has died."""
        run = TaskRun(self, spec, _Resolving(self, spec, offsets), report)
        with self._lock:
            older = {each for each in self._runs if each.spec.task == spec.task}
            self._runs.add(run)
            if older:
                self._behind[run] = set(older)
        for each in older:
            each.cancel()
        if not older:
            run.start()
        return run

    def abandon(self, task: TaskId) -> None:
        """Cancel what is still open of a task whose actor has died; and begin a new life of it."""
        self.probation.forget(task)
        with self._lock:
            left = [each for each in self._runs if each.spec.task == task]
        for each in left:
            each.cancel()

    def close(self, timeout_s: float) -> None:
        """Cancel what runs and end Spark and every thread; blocks at most `timeout_s`, about."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._closed = True
            runs = list(self._runs)
        for run in runs:
            run.cancel()
        while self._runs and time.monotonic() < deadline - timeout_s / 2:
            threading.Event().wait(0.02)
        self._session.close(max(1.0, deadline - time.monotonic()))
        self.poller.close(1.0)
        for pool in (self._jobs, self.pool, self._canceller):
            pool.close(max(0.1, deadline - time.monotonic()))

    # --- run.Host -------------------------------------------------------------------------------------------

    def spark_missing(self) -> str | None:
        """Return why Spark cannot be used now, or None."""
        state = self._session.state
        return state.reason if isinstance(state, EngineStarting) else None

    def obituary(self, error: BaseException) -> str | None:
        """Return what ended Spark if it is dead or dying. A JVM whose SparkContext is gone is ended too."""
        if missing := self.spark_missing():
            return missing
        if lost_context(error):
            self._session.kill("its SparkContext was shut down")
        spark = self._session.current
        if spark is not None and spark.alive(1.0):
            return None
        for _ in range(50):
            if missing := self.spark_missing():
                return missing
            threading.Event().wait(0.02)
        return "Spark's JVM ended"

    def over(self, run: TaskRun) -> None:
        """Forget the run; start what had to wait for its end."""
        with self._lock:
            self._runs.discard(run)
            for waiting in self._behind.values():
                waiting.discard(run)
            free = [each for each, waiting in self._behind.items() if not waiting]
            for each in free:
                del self._behind[each]
        for each in free:
            each.start()

    def work_for(self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset]) -> Work:
        """Make the work for a spec. Raises what the registry raises for unknown names."""
        found, version = task_class(self._means.plugins, spec)
        group = JobGroup(self._session, spec.task, self._canceller, sql_settings(spec.connector_config))
        if issubclass(found, SourceTask) and found.is_stream(spec.connector_config):
            # Its records are Spark's to write, and its offsets the task's to store.
            if spec.transactions is not None:
                log.warning("%s: in real time records are delivered at least once", spec.task)
                spec.transactions.close()
            return StreamWork(spec, found, version, offsets, self._means, group, self._slots, self._canceller)
        if issubclass(found, SourceTask):
            work = SourceWork if spec.transactions is None else OnceWork
            return work(spec, found, version, offsets, self._means, group)
        return SinkWork(spec, found, version, self._means, group)

    def _changed(self, state: EngineState) -> None:
        if isinstance(state, EngineStarting):
            self.probation.spark_ended(out_of_memory=state.out_of_memory)
        with self._lock:
            runs, listeners = list(self._runs), list(self._listeners)
            lost = self._was_up and isinstance(state, EngineStarting)
            self._was_up = isinstance(state, EngineReady)
        if not self._closed:
            for run in runs:
                if isinstance(state, EngineReady):
                    run.spark_ready()
                else:
                    run.spark_away(reason_of(state), lost=lost)
        for listener in listeners:
            listener(state)


class _Resolving:
    """A run's work, made when the run opens: looking plugins up may load code and fail."""

    def __init__(
        self, engine: SparkEngine, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset]
    ) -> None:
        self._engine = engine
        self._spec = spec
        self._offsets = offsets
        self._work: Work | None = None

    @property
    def poll_interval_s(self) -> float:
        """See Work."""
        return self._work.poll_interval_s if self._work else 1.0

    @property
    def polls_idle(self) -> bool:
        """See Work."""
        return self._work is not None and self._work.polls_idle

    @property
    def owes_commit(self) -> bool:
        """See Work."""
        return self._work is not None and self._work.owes_commit

    @property
    def runs_on(self) -> bool:
        """See Work."""
        return self._work is not None and self._work.runs_on

    def open(self) -> str | None:
        """Look the plugin up, make it, open it. Raises HeapExhausted for a task that is not to run again."""
        self._engine.probation.check(self._spec.task)
        self._work = self._engine.work_for(self._spec, self._offsets)
        return self._work.open()

    def poll(self, *, asked: bool) -> Launch | None:
        """See Work."""
        if self._work is None:
            return None
        return self._engine.probation.poll(self._spec.task, self._work, asked=asked)

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """See Work."""
        if self._work:
            self._work.commit(offsets)

    def close(self) -> None:
        """See Work."""
        self._engine.probation.yields(self._spec.task)
        if self._work:
            self._work.close()

    def cancel(self) -> None:
        """See Work."""
        if self._work:
            self._work.cancel()
