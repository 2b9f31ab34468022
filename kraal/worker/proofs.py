"""Runs the proofs of delivery that users request or that are scheduled, and keeps the latest one of each connector."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from actors.messages.offsets import ShowOffsets
from actors.runtime.mailbox import ask
from kraal.config.connector.trimmed import trim_config
from kraal.core.errors import Conflict, KraalError
from kraal.core.ids import Config, ConnectorName, State, TargetState, TaskId
from kraal.core.logging import use_subject
from kraal.core.offsets import Offset, SourcePartition
from kraal.core.secrets import secrets
from kraal.engine.api import Proof, ProofRequest, ProvingEngine, SourceProofInput, TaskSpec
from kraal.metrics.proofs import ProofMetrics
from kraal.plugins.java_chain import needs_java
from kraal.plugins.model.target import NotComparable
from kraal.proof.result import RUNNING, ProofResult, Verdict, format_lines
from kraal.proof.scope import ALL_RECORDS, ProofScope

if TYPE_CHECKING:
    from actors.assembly import Assembly
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.config.variables import ResolvedConfig
    from kraal.core.offsets import OffsetPairs
    from kraal.engine.api import Engine
    from kraal.plugins.worker_plugins import WorkerPlugins
    from kraal.stores.api import GroupOffsets

log = logging.getLogger(__name__)

_SPARK_TIMEOUT_S: Final = 300.0
"""Maximum time that a proof waits for the start of Spark."""
_SPARK_POLL_S: Final = 0.5
_OFFSETS_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofState:
    """A proof that runs or has ended."""

    connector: ConnectorName
    started_ms: int
    scope: ProofScope
    ended_ms: int | None = None
    result: ProofResult | None = None
    reason: str | None = None
    """Why the proof is UNDECIDED."""

    def to_json_object(self) -> dict[str, Any]:
        """Return the REST response."""
        verdict = Verdict.UNDECIDED if self.result is None else self.result.verdict
        return {
            "connector": self.connector,
            "state": RUNNING if self.ended_ms is None else str(verdict),
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "since_ms": self.scope.since_ms,
            "sample_percent": self.scope.sample_percent,
            "reason": self.reason,
            "result": None if self.result is None else self.result.to_json_object(),
        }

    def to_metrics(self, ended_ms: int) -> ProofMetrics:
        """Return the metrics of a proof that has ended."""
        if self.result is None:
            return ProofMetrics(connector=self.connector, ended_ms=ended_ms, is_undecided=True)
        differences, is_partial = self.result.differences, self.result.is_partial
        return ProofMetrics(
            connector=self.connector,
            ended_ms=ended_ms,
            is_undecided=False,
            missing=differences.missing_count,
            repeated=0 if is_partial else differences.repeated_count,
            unexpected=0 if is_partial else differences.unexpected_count,
        )


@dataclass(slots=True)
class Proofs:
    """Runs one proof at a time on a separate thread. Thread-safe."""

    open_proof: Callable[[TaskSpec], Proof]
    resolve: Callable[[Config], ResolvedConfig]
    """Replaces variables in a config; may block."""
    group_offsets: Callable[[], GroupOffsets]
    source_offsets: Callable[[ConnectorName], OffsetPairs]
    """Returns the stored offsets of a source. Blocks; raises KraalError."""
    wall_ms: Callable[[], int]
    needs_java: Callable[[Config], bool] = lambda _: False
    """Returns whether the transforms or converters of a config are Java classes."""
    is_started: Callable[[ConnectorName], bool] = lambda _: True
    """Returns whether a connector is neither paused nor stopped."""
    runs_elsewhere: Callable[[ConnectorName], bool] = lambda _: False
    """Returns whether another worker runs a connector."""
    on_change: Callable[[ConnectorName], object] = lambda _: None
    """Called when a proof of a connector has started or ended, on any thread."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _states: dict[ConnectorName, ProofState] = field(default_factory=dict)
    _metrics: dict[ConnectorName, ProofMetrics] = field(default_factory=dict)
    _running: ConnectorName | None = None
    _proof: Proof | None = None
    _thread: threading.Thread | None = None
    _closed: threading.Event = field(default_factory=threading.Event)

    def start(
        self,
        name: ConnectorName,
        config: Config,
        task_configs: Sequence[Config] | None = None,
        scope: ProofScope = ALL_RECORDS,
    ) -> dict[str, Any]:
        """Start the proof of a connector unless it is running; return its state at once.

        `task_configs` are those of a source; None for a sink. Raises Conflict while the proof of another
        connector is running.
        """
        with self._lock:
            if self._closed.is_set():
                raise Conflict("The worker is stopping.")
            if self._running == name:
                return self._states[name].to_json_object()
            if self._running is not None:
                raise Conflict(
                    f"Connector {self._running} is being proved; a worker runs one proof at a time. Retry later."
                )
            self._running = name
            state = ProofState(connector=name, started_ms=self.wall_ms(), scope=scope)
            self._states[name] = state
            self._thread = threading.Thread(
                target=self._run, args=(state, config, task_configs), name="kraal-proof", daemon=True
            )
            self._thread.start()
        self.on_change(name)
        return state.to_json_object()

    def latest(self, name: ConnectorName) -> dict[str, Any] | None:
        """Return the state of the latest proof of a connector; None if this worker has run none."""
        with self._lock:
            state = self._states.get(name)
        return None if state is None else state.to_json_object()

    def states(self) -> list[ProofState]:
        """Return the latest proof of each connector."""
        with self._lock:
            return list(self._states.values())

    def metrics(self) -> list[ProofMetrics]:
        """Return the metrics of the latest complete proofs, except of connectors that another worker runs."""
        with self._lock:
            return list(self._metrics.values())

    def forget(self, existing: Container[ConnectorName]) -> None:
        """Remove the proofs of deleted connectors, and the metrics of connectors that another worker runs.

        Otherwise, the metrics of a worker could differ for ever from those of a later proof on another worker.
        """
        with self._lock:
            self._states = {
                name: state
                for name, state in self._states.items()
                if name in existing or name == self._running
            }
            self._metrics = {
                name: metrics
                for name, metrics in self._metrics.items()
                if name in existing and not self.runs_elsewhere(name)
            }

    def close(self) -> None:
        """Cancel the running proof."""
        self._closed.set()
        with self._lock:
            proof, thread = self._proof, self._thread
        if proof is not None:
            proof.cancel()
        if thread is not None:
            thread.join(_STOP_TIMEOUT_S)

    def _run(self, state: ProofState, config: Config, task_configs: Sequence[Config] | None) -> None:
        """Run a proof, log its outcome, and store it."""
        name = state.connector
        with use_subject(f"connector {name}"):
            try:
                ended = replace(state, result=self._prove(state, config, task_configs))
                _log_result(ended)
            except Exception as error:  # noqa: BLE001 - plugins, Spark and clients may raise anything
                ended = replace(state, reason=secrets.scrub(_describe(error)))
                log.warning("Failed to prove connector %s: %s", name, ended.reason)
        ended_ms = self.wall_ms()
        with self._lock:
            self._states[state.connector] = replace(ended, ended_ms=ended_ms)
            if state.scope.is_complete and not self.runs_elsewhere(name):
                self._metrics[name] = ended.to_metrics(ended_ms)
            self._running = self._proof = None
        self.on_change(name)

    def _prove(self, state: ProofState, config: Config, task_configs: Sequence[Config] | None) -> ProofResult:
        from kraal.engine.session.session import SparkUnavailable  # noqa: PLC0415 - late, as the engine is imported

        resolved = trim_config(self.resolve(config).config)
        if self.needs_java(resolved):
            raise NotComparable("its transforms or converters are Java classes, which a proof cannot run")
        request = self._make_request(state, resolved, task_configs)
        spec = TaskSpec(task=TaskId(state.connector, 0), task_config=resolved, connector_config=resolved)
        proof = self.open_proof(spec)
        with self._lock:
            self._proof = proof
        if self._closed.is_set():
            raise NotComparable("the worker is stopping")
        deadline_s = time.monotonic() + _SPARK_TIMEOUT_S
        while True:
            try:
                return proof.run(request)
            except SparkUnavailable:
                if time.monotonic() > deadline_s or self._closed.wait(_SPARK_POLL_S):
                    raise

    def _make_request(
        self, state: ProofState, config: Mapping[str, str], task_configs: Sequence[Config] | None
    ) -> ProofRequest:
        """Return the request for a connector with this resolved config."""
        name = state.connector
        since_ms, sample_percent = state.scope.since_ms, state.scope.sample_percent
        max_age_ms = None if since_ms is None else max(0, self.wall_ms() - since_ms)
        if task_configs is None:
            committed = self.group_offsets().read(name, config, timeout_s=_OFFSETS_TIMEOUT_S)
            return ProofRequest(committed=committed, max_age_ms=max_age_ms, sample_percent=sample_percent)

        def read_offsets() -> dict[SourcePartition, Offset]:
            return {SourcePartition.of(partition): offset for partition, offset in self.source_offsets(name)}

        resolved_configs = [trim_config(self.resolve(task_config).config) for task_config in task_configs]
        source = SourceProofInput(
            task_configs=resolved_configs, read_offsets=read_offsets, is_started=self.is_started(name)
        )
        return ProofRequest(source=source, max_age_ms=max_age_ms, sample_percent=sample_percent)


def make_proofs(
    engine: Engine,
    plugins: WorkerPlugins,
    group_offsets: Callable[[], GroupOffsets],
    assembly: Assembly,
    wall_ms: Callable[[], int],
) -> Proofs | None:
    """Return the runner of proofs; None if the engine cannot prove deliveries."""
    if not isinstance(engine, ProvingEngine):
        return None
    return Proofs(
        engine.open_proof,
        plugins.resolve,
        group_offsets,
        lambda name: ask(assembly.herder, ShowOffsets(name=name), timeout_s=_OFFSETS_TIMEOUT_S),
        wall_ms,
        partial(_needs_java_chain, plugins),
        lambda name: is_started(assembly.published.latest, name),
        lambda name: runs_elsewhere(assembly.published.latest, name),
    )


def _needs_java_chain(plugins: WorkerPlugins, config: Config) -> bool:
    """Return whether a connector in Python has transforms or converters in Java. Java connectors run their own."""
    name = plugins.registry.resolve(config.get("connector.class") or "")
    is_java = name is not None and plugins.registry.is_java(name)
    return not is_java and needs_java(plugins.registry, plugins.defaults.raw, config)


def is_started(snapshot: Snapshot, name: ConnectorName) -> bool:
    """Return whether a connector is neither paused nor stopped. Pure."""
    entry = snapshot.config.connectors.get(name)
    return entry is not None and entry.target is TargetState.STARTED


def runs_elsewhere(snapshot: Snapshot, name: ConnectorName) -> bool:
    """Return whether another worker has started a connector, according to the connector's status. Pure."""
    statuses = snapshot.status.statuses.get(name)
    status = None if statuses is None else statuses.connector
    if status is None or status.state not in {State.RUNNING, State.PAUSED}:
        return False
    return status.worker_id != snapshot.worker_id


def _log_result(state: ProofState) -> None:
    """Log the lines for users; as a warning if the records differ."""
    is_different = state.result is not None and state.result.verdict is Verdict.DIFFERENT
    for line in format_lines(state.to_json_object()):
        log.log(
            logging.WARNING if is_different else logging.INFO,
            "Proof of connector %s: %s",
            state.connector,
            line,
        )


def _describe(error: Exception) -> str:
    """Return the reason for users: the message of a known error, or the root cause of any other."""
    from kraal.engine.failure_trace import root_cause  # noqa: PLC0415 - as above

    return str(error) if isinstance(error, (KraalError, NotComparable)) else root_cause(error)
