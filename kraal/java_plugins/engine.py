"""The engine of a worker with Java plugins: Java tasks run in the plugins' JVMs, other tasks in another engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from kraal.config.connector.converters import converter_settings
from kraal.config.connector.keys import CONNECTOR_VERSION, KEY_CONVERTER, VALUE_CONVERTER
from kraal.config.variables import has_variable
from kraal.core.errors import KraalError, PluginMissing
from kraal.core.ids import TaskId
from kraal.engine.api import Failed, FailedRun, ProvingEngine
from kraal.engine.failure_trace import failure_trace
from kraal.java_plugins.connector import JavaConnector
from kraal.java_plugins.metrics import JavaMetrics
from kraal.java_plugins.run import JavaRun
from kraal.plugins.java_chain import chain_config, needs_java
from kraal.plugins.model.target import NotComparable

if TYPE_CHECKING:
    from kraal.config.connector.converters import ConverterSettings
    from kraal.config.worker.config import WorkerConfig
    from kraal.core.ids import Config, Instance
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.engine.api import Engine, EngineState, Proof, Run, RunEvent, Stopped, TaskSpec
    from kraal.java_plugins.chains.run import ChainedRun
    from kraal.java_plugins.host import PluginHost
    from kraal.java_plugins.hosts import PluginHosts
    from kraal.metrics.stalls.down_parts import DownPart
    from kraal.metrics.thread_pools import PoolState
    from kraal.plugins.model.keyed_source import KeyedSource, OpenKeyedSource
    from kraal.plugins.model.target import OpenTarget, ReadableTarget
    from kraal.plugins.registry import Registry


class JavaPluginEngine:
    """The engine of a worker with Java plugins. Implements `kraal.engine.api.Engine`."""

    def __init__(
        self,
        inner: Engine,
        hosts: PluginHosts,
        registry: Registry,
        worker: WorkerConfig,
        keyed_sources: Mapping[str, OpenKeyedSource] = MappingProxyType({}),
        sink_targets: Mapping[str, OpenTarget] = MappingProxyType({}),
    ) -> None:
        """Create an engine; `inner` is the engine for plugins in Python.

        `keyed_sources` and `sink_targets` are the Java connectors whose delivery can be proved, by class name.
        """
        self._keyed_sources, self._sink_targets = keyed_sources, sink_targets
        self._inner, self._hosts, self._registry, self._worker = inner, hosts, registry, worker.raw
        self._graceful_s = worker.graceful_timeout_s
        self.metrics = JavaMetrics(hosts)
        """The metrics of the plugins' JVMs and of the tasks in them."""
        self._lock = threading.Lock()
        self._runs: dict[TaskId, JavaRun | ChainedRun] = {}
        """The last run of each task that uses a JVM, until the task is removed from the JVM. Guarded by `_lock`."""

    @property
    def state(self) -> EngineState:
        """The state of the other engine."""
        return self._inner.state

    def pools(self) -> Sequence[PoolState]:
        """Return the state of each thread pool of the other engine."""
        return self._inner.pools()

    def down(self) -> Sequence[DownPart]:
        """Return the parts of the other engine and the plugins' JVMs that are down."""
        return [*self._inner.down(), *self._hosts.down()]

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Call `changed` with every later state of the other engine."""
        self._inner.listen(changed)

    def is_ready_for(self, connectors: Iterable[Config]) -> bool:
        """Start the other engine if a connector is in Python; the plugins' JVM starts with the worker.

        Return whether each engine that these connectors require is up. A connector of an unknown class fails and
        requires neither; a class that is set by a variable may be in Python.
        """
        by_java: dict[bool, list[Config]] = {True: [], False: []}
        for config in connectors:
            class_name = config.get("connector.class") or ""
            name = self._registry.resolve(class_name)
            if name is not None or has_variable(class_name):
                by_java[name is not None and self._registry.is_java(name)].append(config)
        is_up = not by_java[True] or self._hosts.shared.down_reason is None
        return (not by_java[False] or self._inner.is_ready_for(by_java[False])) and is_up

    def waiting_reason(self) -> str | None:
        """Return the reason why the plugins' JVM or the other engine is down; None if both are up."""
        return self._hosts.shared.down_reason or self._inner.waiting_reason()

    def open_proof(self, spec: TaskSpec, target: ReadableTarget | None = None) -> Proof:
        """Prepare the proof of a connector. Raises NotComparable for an unsupported connector or config in Java."""
        config = spec.connector_config
        class_name = config["connector.class"]
        name = self._registry.resolve(class_name)
        if not isinstance(self._inner, ProvingEngine):
            raise NotComparable("this worker cannot prove deliveries")
        if name is None or not self._registry.is_java(name):
            return self._inner.open_proof(spec, target)
        open_source, open_target = self._keyed_sources.get(name), self._sink_targets.get(name)
        location = self._registry.location(name, config.get(CONNECTOR_VERSION))
        if location is None or (open_source is None and open_target is None):
            raise NotComparable(f"the Java connector {class_name} does not support proofs of delivery")
        plugin = Path(unquote(urlsplit(location).path))  # a URL such as file:/plugins/debezium/
        if open_target is not None:
            if needs_java(self._registry, self._worker, config):
                raise NotComparable("its transforms or converters are Java classes, which a proof cannot run")
            return self._inner.open_proof(spec, open_target(config, plugin))
        assert open_source is not None  # noqa: S101 - see above
        key_converter, value_converter = (
            self._converter(config, role) for role in (KEY_CONVERTER, VALUE_CONVERTER)
        )
        source = open_source(config, key_converter, value_converter, plugin)
        return self._inner.open_keyed_proof(spec, source)

    def open_keyed_proof(self, spec: TaskSpec, source: KeyedSource) -> Proof:
        """See `kraal.engine.api.ProvingEngine`."""
        if not isinstance(self._inner, ProvingEngine):
            raise NotComparable("this worker cannot prove deliveries")
        return self._inner.open_keyed_proof(spec, source)

    def _converter(self, config: Mapping[str, str], role: str) -> ConverterSettings:
        """Return the settings of a Java connector's converter, with the full class name."""
        settings = converter_settings(self._worker, config, role)
        return settings._replace(
            class_name=self._registry.resolve(settings.class_name) or settings.class_name
        )

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Open a task. A Java task reads its offsets itself; `offsets` are where its counts start."""
        java_class = self._java_class(spec)
        if java_class is None:
            self.metrics.remove_task(spec.task)
            try:
                self._registry.connector(spec.connector_config.get("connector.class", ""))
            except PluginMissing as error:  # fail without starting Spark, which the worker may not need
                report(Failed(trace=failure_trace(error, f"task {spec.task}")))
                return FailedRun()
            return self._open_python(spec, offsets, report)
        host = self._hosts.acquire(spec.task.connector, spec.connector_config)
        run = JavaRun(
            host,
            spec,
            number=host.next_number(),
            version=java_class.version,
            is_source=java_class.kind == "source",
            graceful_s=self._graceful_s,
            report=report,
            store_metrics=self.metrics.store_values,
            on_end=partial(self._on_end, host),
            offsets=offsets,
        )
        self.metrics.add_run(spec.task, run.number)
        previous_run = self._replace(run)
        run.open(previous_run if isinstance(previous_run, JavaRun) else None)
        return run

    def abandon(self, instance: Instance) -> None:
        """Cancel the open run of a task; stop a connector that has failed or hangs."""
        if isinstance(instance, TaskId):
            with self._lock:
                run = self._runs.get(instance)
            if run is not None:
                run.cancel()
        else:
            self._hosts.abandon(instance)
        self._inner.abandon(instance)

    def close(self, timeout_s: float) -> None:
        """Close the plugins' JVMs, then the other engine."""
        self._hosts.close()
        self.metrics.close()
        self._inner.close(timeout_s)

    def _open_python(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Open a task of a Python connector; wait for the chain of its Java transforms and converters, if any."""
        kind = self._chained_kind(spec)
        if kind is None:
            return self._inner.open(spec, offsets, report)
        # Imported late because the module imports Arrow, which would delay the startup of REST.
        from kraal.java_plugins.chains.run import ChainedRun  # noqa: PLC0415 - see above

        host = self._hosts.acquire(spec.task.connector, spec.connector_config)
        run = ChainedRun(
            host,
            spec,
            chain_config(self._registry, self._worker, spec.connector_config),
            kind=kind,
            graceful_s=self._graceful_s,
            number=host.next_number(),
            open_inner=lambda chained, listener: self._inner.open(chained, offsets, listener),
            report=report,
            on_end=partial(self._on_end, host),
        )
        self._replace(run)
        run.open()
        return run

    def _replace(self, run: JavaRun | ChainedRun) -> JavaRun | ChainedRun | None:
        """Store a task's new run; cancel and return the run that was stored for the task, if any."""
        with self._lock:
            previous_run, self._runs[run.spec.task] = self._runs.get(run.spec.task), run
        if previous_run is not None:
            previous_run.cancel()
        return previous_run

    def _chained_kind(self, spec: TaskSpec) -> str | None:
        """Return `source` or `sink` for a task with a chain in Java; None for other tasks."""
        config = spec.connector_config
        try:
            kind = self._registry.connector_class(config.get("connector.class", "")).kind
        except KraalError:
            return None
        return kind if needs_java(self._registry, self._worker, config) else None

    def _java_class(self, spec: TaskSpec) -> type[JavaConnector] | None:
        """Return the class of a Java task; None for a task in Python.

        If the version is not installed, return another version: Kafka's worker then fails the task.
        """
        name, version = (spec.connector_config.get(key, "") for key in ("connector.class", CONNECTOR_VERSION))
        for requirement in (version or None, None):
            try:
                plugin_class = self._registry.connector_class(name, requirement)
            except KraalError:
                continue
            return plugin_class if issubclass(plugin_class, JavaConnector) else None
        return None

    def _on_end(self, host: PluginHost, run: JavaRun | ChainedRun, event: Failed | Stopped) -> None:
        """Remove a run and release the host, after a delay if the JVM was lost, because the task will be opened again.

        A failed task stays in its JVM until the task is restarted or leaves this worker. Source: Worker.awaitStopTask.
        """
        if isinstance(run, JavaRun):
            self.metrics.on_end(run.spec.task, run.number)
            if run.is_kept_in_jvm:
                return
        with self._lock:
            if self._runs.get(run.spec.task) is run:
                del self._runs[run.spec.task]
        self._hosts.release(host, later=isinstance(event, Failed) and event.engine_lost)
