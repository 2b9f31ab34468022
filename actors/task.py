"""One task: requests one batch after another from the engine and stores the offsets of each written batch.

    opening ──Opened──► requesting ──BatchDone──► storing ──stored──► requesting ──► …
                            │ hold()                 (a sink: committing)
                            ▼ Held
                          idle ──► stop(), or paused until resumed

Offsets are stored after the write and before the next batch is requested, so only the batch in flight can be
delivered twice; for a busy source, it is the sum of the batches of about a second. A graceful stop or pause first
waits until that batch is written and its offsets are stored, which avoids duplicates. The task stores offsets only
with a lease, so that a disconnected worker commits nothing after its work was reassigned. Without a lease the task
waits, because on a loaded machine the broker's response may merely be late.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, assert_never

from actors.instances.late_lease import LateLease
from actors.instances.plugin_calls import plugin_code
from actors.instances.source_offsets import KEEPER_TIMEOUT_S, TaskOffsets, tokens
from actors.instances.state_lines import StateReports
from actors.instances.task_ledger import TaskLedger
from actors.instances.task_metrics import record_event
from actors.messages.herder import TopicsSeen
from actors.messages.instances import (
    CancelInstance,
    RepeatReport,
    RetryOffsets,
    RunReported,
    SetTarget,
    StopInstance,
    TaskMessage,
)
from actors.messages.stores import OffsetsFailed, OffsetsLoaded, OffsetsStored
from actors.runtime.clock import MessageTimer
from actors.runtime.system import Begin
from kraal.config.connector.trimmed import trim_config
from kraal.core.errors import PluginFailed, StoreUnavailable
from kraal.core.ids import State, TargetState, TopicName
from kraal.engine.api import (
    BatchDone,
    Committed,
    Counted,
    Failed,
    Held,
    Opened,
    PhaseTimes,
    Stopped,
    Waiting,
)

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.cluster.state.wanted_work import Incarnation
    from kraal.config.variables import ResolvedConfig
    from kraal.core.ids import Config
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.engine.api import Engine, Run, RunEvent, TaskSpec
    from kraal.metrics.task import TaskMeter

log = logging.getLogger(__name__)

STORE_RETRY_DELAY_S = 1.0
LEASE_RETRY_DELAY_S = 0.5


class _Phase(Enum):
    IDLE = auto()
    """There is no run, or the run is on hold."""
    LOADING = auto()
    OPENING = auto()
    REQUESTING = auto()
    STORING = auto()
    """The offsets of the last batch are being stored; `_is_held` is True if the run is already on hold."""
    STOPPING = auto()
    FAILED = auto()


class Task:
    """One incarnation of a task; a restart creates a new object."""

    def __init__(
        self,
        *,
        spec: TaskSpec,
        incarnation: Incarnation,
        target: TargetState,
        is_source: bool,
        version: str | None = None,
        known_topics: Callable[[], frozenset[TopicName] | None],
        address: Address,
        worker: Address,
        offsets: Address,
        claims: Address | None = None,
        ledger: Address | None = None,
        engine: Engine,
        resolve: Callable[[Config], ResolvedConfig],
        clock: Clock,
        meter: TaskMeter,
    ) -> None:
        """Create a task without a run.

        `version`: version of the plugin. `known_topics` returns the connector's topics in the snapshot; None if topic
        tracking is disabled. `resolve` replaces variables by their values; it may block and raise any error.
        """
        self._spec = spec
        self._task, self._target = spec.task, target
        self._is_source, self._known_topics = is_source, known_topics
        self._address, self._worker = address, worker
        self._offsets = TaskOffsets(
            spec=spec, version=incarnation.version, address=address, keeper=offsets, claims=claims
        )
        self._engine, self._resolve, self._meter = engine, resolve, meter
        self._phase = _Phase.IDLE
        self._run: Run | None = None
        self._failed_run: Run | None = None
        self._number = self._token = 0
        """Number of the run, and token of the pending load or store; replies with other tokens are dropped."""
        self._batch: Mapping[SourcePartition, Offset] = {}
        self._is_held = self._is_ending = self._is_engine_lost = False
        self._lease, self._ledger = LateLease(spec), TaskLedger(spec.task, ledger, incarnation.version)
        self._reports = StateReports(
            spec.task, incarnation, worker, version=version, record=meter.record_state
        )
        self._timer = MessageTimer(clock, address)
        """Timer of the next retry: after an error, without a lease, or because the offset keeper has not replied."""

    def receive(self, message: TaskMessage) -> None:
        """Handle one message."""
        match message:
            case Begin():
                self._engine.abandon(self._task)  # drops events of an earlier incarnation's run
                self._follow_target()
            case SetTarget():
                self._target = message.target
                self._follow_target()
            case StopInstance():
                self._stop()
            case CancelInstance():
                self._cancel()
            case RepeatReport():
                self._reports.repeat()
            case RunReported():
                if message.run == self._number:
                    self._handle_event(message.event)
            case OffsetsLoaded():
                if message.token == self._token and self._phase is _Phase.LOADING:
                    self._open(message)
            case OffsetsStored():
                if message.token == self._token and self._phase is _Phase.STORING:
                    self._on_stored()
            case OffsetsFailed():
                self._on_offsets_failed(message)
            case RetryOffsets():
                if message.run == self._number:
                    self._retry_offsets()
            case _:
                assert_never(message)

    def _follow_target(self) -> None:
        if self._is_ending or self._phase in (_Phase.STOPPING, _Phase.FAILED):
            return
        if self._target is TargetState.STARTED:
            if self._run is None and self._phase is _Phase.IDLE:
                self._number = self._token = next(tokens)
                self._load()
            elif self._run is not None and self._phase is _Phase.IDLE:
                self._reports.send(State.RUNNING)
                self._request_batch()
            return
        if self._phase is _Phase.IDLE:
            self._reports.send(State.PAUSED)
        elif self._phase is _Phase.REQUESTING and self._run is not None:
            self._run.hold()

    def _stop(self) -> None:
        if self._is_ending:
            return
        self._is_ending = True
        if self._run is None:
            self._on_ended()
        elif self._phase is _Phase.REQUESTING:
            if self._run.stop_if_idle():
                self._phase = _Phase.STOPPING
            else:
                self._run.hold()
        elif self._phase in (_Phase.IDLE, _Phase.OPENING):
            self._phase = _Phase.STOPPING
            self._run.stop()
        elif self._lease.is_awaited:
            self._cancel()

    def _cancel(self) -> None:
        self._is_ending = True
        if self._run is None:
            self._on_ended()
            return
        self._phase = _Phase.STOPPING
        self._run.cancel()

    def _load(self) -> None:
        self._phase, self._is_held = _Phase.LOADING, False
        if not self._is_source:
            self._open(OffsetsLoaded(token=self._token, offsets={}))
            return
        self._token, timeout_s = self._offsets.load(self._token)
        self._schedule_retry(timeout_s)

    def _retry_offsets(self) -> None:
        if self._phase is _Phase.LOADING:
            self._load()
        elif self._phase is _Phase.STORING and (self._is_source or self._lease.is_awaited):
            self._store()

    def _schedule_retry(self, delay_s: float) -> None:
        self._timer.schedule(delay_s, RetryOffsets(self._number))

    def _open(self, offsets_loaded: OffsetsLoaded) -> None:
        self._timer.cancel()
        if self._is_ending:
            return
        if not self._spec.lease():  # the task may run elsewhere by now; otherwise the lease is renewed
            self._schedule_retry(LEASE_RETRY_DELAY_S)
            return
        number, address = self._number, self._address
        self._phase = _Phase.OPENING
        try:
            spec = _resolve_spec(self._spec, self._resolve)
        except PluginFailed as error:
            self._handle_event(Failed(trace=error.trace))
            return
        self._run = self._engine.open(
            replace(spec, transactions=offsets_loaded.transactions),
            offsets_loaded.offsets,
            lambda event: address.tell(RunReported(number, event)),
        )

    def _handle_event(self, event: RunEvent) -> None:
        phase = self._phase
        record_event(
            self._meter, event, is_requesting=phase is _Phase.REQUESTING, is_storing=phase is _Phase.STORING
        )
        match event:
            case Waiting() if self._phase is _Phase.OPENING and not self._is_engine_lost:
                # The run is not open yet. After a loss of the engine, the FAILED status stays, because its
                # trace is more useful than this reason.
                self._reports.send(State.UNASSIGNED, event.reason)
            case Waiting() if self._phase is _Phase.REQUESTING and event.engine_failed:
                self._reports.send(State.UNASSIGNED, event.reason)
            case Opened():
                self._on_opened(event)
            case BatchDone():
                self._on_batch_done(event)
            case Committed() if self._phase is _Phase.STORING:
                self._on_stored()
            case Counted():
                self._ledger.record(self._number, event.entry)
            case Waiting() | Committed() | PhaseTimes():
                pass  # recorded above
            case Held():
                self._is_held = True
                if self._phase is _Phase.REQUESTING:
                    self._settle()
            case Failed():
                self._on_failed(event)
            case Stopped():
                self._run = None
                self._on_ended()
            case _:
                assert_never(event)

    def _on_opened(self, event: Opened) -> None:
        self._is_engine_lost, self._reports.version = False, event.version
        last_report = self._reports.last
        if self._phase is _Phase.REQUESTING and last_report and last_report.state is State.UNASSIGNED:
            self._reports.send(State.RUNNING)
        if self._phase is not _Phase.OPENING:
            return
        if self._target is TargetState.STARTED:
            self._reports.send(State.RUNNING)
            self._request_batch()
        elif self._run is not None:  # the engine may process records as soon as a run is open
            self._phase = _Phase.REQUESTING
            self._run.hold()

    def _request_batch(self) -> None:
        self._phase, self._is_held = _Phase.REQUESTING, False
        if self._run is not None:
            self._run.next()

    def _on_batch_done(self, event: BatchDone) -> None:
        if self._phase is not _Phase.REQUESTING:
            return
        known_topics = self._known_topics()
        if known_topics is not None and not event.topics <= known_topics:
            self._worker.tell(TopicsSeen(task=self._task, topics=event.topics))
        self._phase, self._batch, self._token = _Phase.STORING, event.offsets, next(tokens)
        self._ledger.hold(event.entry)
        if self._batch:
            self._meter.record_commit_start()
            self._store()
        else:
            self._on_stored()

    def _store(self) -> None:
        if self._run is None:
            return
        if not self._lease.holds():
            self._cancel() if self._is_ending else self._schedule_retry(LEASE_RETRY_DELAY_S)
            return
        if not self._is_source:
            self._run.commit(self._batch)
            return
        self._offsets.store(self._batch, self._token)
        self._schedule_retry(KEEPER_TIMEOUT_S)

    def _on_stored(self) -> None:
        self._timer.cancel()
        self._ledger.send(self._number)
        self._meter.record_commit()
        if self._is_held or self._is_ending or self._target is not TargetState.STARTED:
            self._phase = _Phase.REQUESTING
            if self._is_held:
                self._settle()
            elif self._run is not None:
                self._run.hold()
        else:
            self._request_batch()

    def _settle(self) -> None:
        """Stop, continue or report PAUSED once the run is on hold and its offsets are stored."""
        self._phase = _Phase.IDLE
        if self._is_ending and self._run is not None:
            self._phase = _Phase.STOPPING
            self._run.stop()
        elif self._target is TargetState.STARTED:
            self._request_batch()
        else:
            self._reports.send(State.PAUSED)

    def _on_failed(self, event: Failed) -> None:
        self._failed_run, self._run = self._run, None
        if self._is_ending:
            self._on_ended()
        elif not event.engine_lost:
            self._phase = _Phase.FAILED
            self._reports.send(State.FAILED, event.trace)
        else:  # not caused by the task, which continues when the engine is available again
            self._phase, self._is_engine_lost = _Phase.IDLE, self._target is TargetState.STARTED
            if self._is_engine_lost:
                self._reports.send(State.FAILED, event.trace, recovers=True)
            self._follow_target()

    def _on_ended(self) -> None:
        if self._failed_run is not None:
            self._failed_run.cancel()
        self._timer.cancel()
        self._offsets.drop(self._token)
        self._number = self._token = 0
        self._phase = _Phase.STOPPING
        self._reports.send(State.UNASSIGNED, stopped=True)

    def _on_offsets_failed(self, message: OffsetsFailed) -> None:
        if message.token != self._token:
            return
        self._timer.cancel()
        if self._phase is _Phase.LOADING and isinstance(message.error, StoreUnavailable):
            self._reports.send(
                State.UNASSIGNED, f"waiting until its source offsets can be read: {message.error}"
            )
            self._schedule_retry(STORE_RETRY_DELAY_S)
        elif self._phase is _Phase.LOADING:
            self._phase = _Phase.FAILED
            self._meter.record_failure()
            self._reports.send(State.FAILED, f"{type(message.error).__name__}: {message.error}")
        elif self._phase is _Phase.STORING:
            self._meter.record_commit_failure(str(message.error))
            self._schedule_retry(STORE_RETRY_DELAY_S)


def _resolve_spec(spec: TaskSpec, resolve: Callable[[Config], ResolvedConfig]) -> TaskSpec:
    """Return a spec with resolved configs. Raises PluginFailed."""
    with plugin_code(f"resolving the configs of task {spec.task}"):
        return replace(
            spec,
            task_config=trim_config(resolve(spec.task_config).config),
            connector_config=trim_config(resolve(spec.connector_config).config),
        )
