"""Sets up the Java plugins of a worker from its properties: the hosts of their JVMs, and their classes."""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraal.config.connector.java_plugins import DEFAULT_OPTIONS, OPTIONS, parse_jvm
from kraal.config.values import split_list
from kraal.jars.java_module import java_class_path
from kraal.java_plugins.catalog import (
    JavaPlugin,
    has_transient_errors,
    parse_catalog,
    read_cached,
    store_catalog,
)
from kraal.java_plugins.connector import make_classes
from kraal.java_plugins.discovery import Discovery, plugin_path
from kraal.java_plugins.host import PluginHost
from kraal.java_plugins.hosts import PluginHosts
from kraal.java_plugins.jvm import Jvm, PluginsUnavailable
from kraal.java_plugins.loggers import set_plugin_log_levels
from kraal.java_plugins.offsets import StandaloneOffsets
from kraal.plugins.registry import Registry

if TYPE_CHECKING:
    from kraal.stores.api import OffsetStore

log = logging.getLogger(__name__)

TUNING: Final = ("-XX:MaxInlineLevel=15", "-Djava.awt.headless=true")
G1: Final = (
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""With `TUNING`, the JVM options of Connect's own script. Source: kafka-run-class.sh (Kafka 4.3.0)."""
PARALLEL: Final = ("-XX:+UseParallelGC",)
"""The collector for the default options: a sink is 5 % faster than with G1, and pauses are short (heap of 2 GB).

With a larger heap, pauses may be longer.
"""
CLIENT_DEFAULTS: Final = {"producer.batch.size": "131072"}
"""Defaults for the clients of Java plugins, which the worker and the connector can override.

With the producer's default of 16 KiB, a request holds four Debezium records with schemas, and Connect sends one request
after another, so that requests cost more than records. The producer splits a batch that exceeds the topic's limit
(KAFKA-8350).
"""
JMX_PORTS: Final = ("-Dcom.sun.management.jmxremote.port=", "-Dcom.sun.management.jmxremote.rmi.port=")
"""Options that only the shared JVM receives, because no other JVM could bind the same port."""
_COLLECTOR: Final = re.compile(r"-XX:\+Use(Serial|Parallel|G1|Z|Shenandoah|Epsilon)GC\b")
_OPTION_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables from which Java reads options."""
MAX_SILENCE_S: Final = 5.0
"""Time without a poll after which a JVM exits, unless half of the session timeout is shorter."""
_PROVIDERS: Final = "config.providers"
"""The prefix of properties that Kafka's worker does not need, because all variables are already resolved."""
_REPORTERS: Final = "metric.reporters"
_JMX: Final = "org.apache.kafka.common.metrics.JmxReporter"


def start_java_plugins(
    registry: Registry,
    worker: Mapping[str, str],
    *,
    session_timeout_s: float,
    offsets: OffsetStore | None = None,
    is_stopping: Callable[[], bool],
) -> tuple[Registry, PluginHosts | None]:
    """Start the shared JVM; return the registry with the Java plugins, and the hosts of their JVMs.

    Return the registry unchanged and None without `plugin.path`, or if the worker stops before the scan completes.

    Args:
        registry: Kraal's own plugins.
        worker: the worker's properties.
        session_timeout_s: JVMs that receive no poll for half of this time, or for `MAX_SILENCE_S`, exit.
        offsets: the offset store of a standalone worker; None if Java sources use the offset topic.
        is_stopping: returns whether the worker was requested to stop.

    Raises PluginsUnavailable if the scan fails.
    """
    if not plugin_path(worker):
        return registry, None
    discovery = Discovery(worker)
    catalog = read_cached(discovery.digest)

    def make_host(class_path: Callable[[], Sequence[Path]], connector: str = "") -> PluginHost:
        host = PluginHost(
            discovery=discovery,
            worker=worker_properties(worker),
            class_path=class_path,
            options=list_options(worker, is_shared=not connector),
            silence_s=min(MAX_SILENCE_S, session_timeout_s / 2),
            standalone=offsets is not None,
            describes_plugins=catalog is None and not connector,
            connector=connector,
        )
        if offsets is not None:
            StandaloneOffsets(host, offsets)
        return host

    def make_dedicated_host(connector: str, await_previous: Callable[[], None]) -> PluginHost:
        def class_path() -> Sequence[Path]:
            discovery.wait_for_scan()
            await_previous()
            return java_class_path()

        return make_host(class_path, connector)

    hosts = PluginHosts(make_host(java_class_path), make_dedicated_host, parse_jvm(worker))
    hosts.shared.start()
    try:
        if catalog is None:
            catalog = read_catalog(discovery, lambda: hosts.shared.describe(is_stopping))
        return _with_java_plugins(registry, hosts, catalog), hosts
    except PluginsUnavailable:
        hosts.close()
        if is_stopping():
            return registry, None
        raise


def worker_properties(worker: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of Kafka's worker in the JVM.

    Metrics reporters other than `JmxReporter` are dropped, because they are not on the class path and would prevent
    Kafka's worker from starting.
    """
    properties = CLIENT_DEFAULTS | {
        key: text for key, text in worker.items() if not key.startswith(_PROVIDERS)
    }
    if any(name != _JMX for name in split_list(worker.get(_REPORTERS) or "")):
        properties[_REPORTERS] = _JMX
    return properties


def prepare_plugins(worker: Mapping[str, str]) -> int:
    """Download jars, compile Kraal's Java classes and scan the plugins; return the number of plugins.

    Requires no broker. Raises PluginsUnavailable, JarsUnavailable, JavaMissing.
    """
    discovery = Discovery(worker)

    def describe() -> str:
        files = discovery.next_files()
        jvm = Jvm(java_class_path(), list_options(worker), files)
        try:
            text = str(jvm.entry.describe())
            discovery.store_scan(files, jvm.entry)
        finally:
            jvm.close()
        return text

    java_class_path()
    return len(read_catalog(discovery, describe))


def read_catalog(discovery: Discovery, describe: Callable[[], str]) -> list[JavaPlugin]:
    """Return the cached catalog; if there is none, call `describe` and cache its result."""
    plugins = read_cached(discovery.digest)
    if plugins is None:
        text = describe()
        plugins = parse_catalog(text)
        if not has_transient_errors(text):
            store_catalog(discovery.digest, text)
    return plugins


def list_options(worker: Mapping[str, str], *, is_shared: bool = True) -> Sequence[str]:
    """Return the command-line options of a JVM."""
    text = worker.get(OPTIONS) or DEFAULT_OPTIONS
    sources = (text, *map(os.environ.get, _OPTION_VARIABLES))
    has_collector = any(_COLLECTOR.search(source) for source in sources if source)
    collector = () if has_collector else PARALLEL if text == DEFAULT_OPTIONS else G1
    options = shlex.split(text)
    return [
        *TUNING,
        *collector,
        *(option for option in options if is_shared or not option.startswith(JMX_PORTS)),
    ]


def _with_java_plugins(registry: Registry, hosts: PluginHosts, catalog: Sequence[JavaPlugin]) -> Registry:
    """Return the registry with the plugins of `plugin.path`.

    A Java connector replaces Kraal's connector of the same name. If Kraal has another plugin of the same name as a Java
    class, Python connectors use Kraal's plugin, and Java connectors use the Java class.
    """
    log.info("Found %d Java plugins in plugin.path", len(catalog))
    set_plugin_log_levels(plugin.class_name for plugin in catalog)
    hosts.shared.services = [plugin for plugin in catalog if plugin.is_service]
    plugins = [
        plugin
        for plugin in catalog
        if plugin.is_connector
        or (not plugin.is_service and registry.resolve(plugin.class_name) != plugin.class_name)
    ]
    chain_classes = {plugin.class_name for plugin in catalog if not plugin.is_service}
    service_names = frozenset().union(*(plugin.service_names for plugin in hosts.shared.services))
    return registry.with_java(make_classes(plugins, hosts), chain_classes, service_names)
