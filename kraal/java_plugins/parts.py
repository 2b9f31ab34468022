"""Makes the parts of Java plugins for a worker from its properties: the hosts of their processes, and their classes."""

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
from kraal.java_plugins.catalog import JavaPlugin, has_passing_errors, parse_catalog, read_cached, store
from kraal.java_plugins.connector import make_classes
from kraal.java_plugins.discovery import Discovery, plugin_path
from kraal.java_plugins.host import PluginHost
from kraal.java_plugins.hosts import PluginHosts
from kraal.java_plugins.jvm import Jvm, PluginsAway
from kraal.java_plugins.loggers import show_plugin_lines
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
"""Used with the default options: a sink is 5 % faster than with G1, and a heap of 2 GB is small enough for the pauses.

A heap that a user chooses may not be.
"""
CLIENTS: Final = {"producer.batch.size": "131072"}
"""Client settings of Java plugins where neither the worker nor the connector has its own.

With the producer's own default of 16 KiB, a request has four records of Debezium's with schemas, and Connect sends one
request after another: requests then cost more than records. A topic may still allow less than a batch; the producer
splits one that is refused (KAFKA-8350).
"""
JMX_PORTS: Final = ("-Dcom.sun.management.jmxremote.port=", "-Dcom.sun.management.jmxremote.rmi.port=")
"""Options that only the shared JVM gets: another one would not start, because the port is taken."""
_COLLECTOR: Final = re.compile(r"-XX:\+Use(Serial|Parallel|G1|Z|Shenandoah|Epsilon)GC\b")
_OF_JAVA: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables of the environment from which Java takes options."""
MAX_SILENCE_S: Final = 5.0
_RESOLVED: Final = "config.providers"
"""Providers, also those in the process, have resolved all configs before these reach Kafka's worker."""
_REPORTERS: Final = "metric.reporters"
_JMX: Final = "org.apache.kafka.common.metrics.JmxReporter"


def with_plugin_path(
    registry: Registry,
    worker: Mapping[str, str],
    *,
    session_timeout_s: float,
    offsets: OffsetStore | None = None,
    told: Callable[[], bool],
) -> tuple[Registry, PluginHosts | None]:
    """Start the shared process of Java plugins, and return the registry with them; without `plugin.path` as it is.

    Args:
        registry: Kraal's own plugins.
        worker: the worker's properties.
        session_timeout_s: the processes end before the group can have noticed that the worker is silent.
        offsets: the store of a standalone worker; None: Java sources use the offset topic of a distributed one.
        told: whether the worker was asked to end.

    Raises PluginsAway if the scan fails.
    """
    if not plugin_path(worker):
        return registry, None
    discovery = Discovery(worker)
    catalog = read_cached(discovery.digest)

    def make(class_path: Callable[[], Sequence[Path]], connector: str = "") -> PluginHost:
        host = PluginHost(
            discovery=discovery,
            worker=worker_properties(worker),
            class_path=class_path,
            options=list_options(worker, is_shared=not connector),
            silence_s=min(MAX_SILENCE_S, session_timeout_s / 2),
            standalone=offsets is not None,
            describes=catalog is None and not connector,
            connector=connector,
        )
        if offsets is not None:
            StandaloneOffsets(host, offsets)
        return host

    def make_own(connector: str, before: Callable[[], None]) -> PluginHost:
        def class_path() -> Sequence[Path]:
            discovery.wait()
            before()
            return java_class_path()

        return make(class_path, connector)

    hosts = PluginHosts(make(java_class_path), make_own, parse_jvm(worker))
    hosts.shared.start()
    try:
        if catalog is None:
            catalog = read_catalog(discovery, lambda: hosts.shared.describe(told))
        return _with_java_plugins(registry, hosts, catalog), hosts
    except PluginsAway:
        hosts.close()
        if told():
            return registry, None
        raise


def worker_properties(worker: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of Kafka's worker in the process, from those of Kraal's.

    Of reporters only Kafka's own is there: others are on the class path of a Java worker, and it would not start.
    """
    properties = CLIENTS | {key: text for key, text in worker.items() if not key.startswith(_RESOLVED)}
    if any(name != _JMX for name in split_list(worker.get(_REPORTERS) or "")):
        properties[_REPORTERS] = _JMX
    return properties


def prepare_plugins(worker: Mapping[str, str]) -> int:
    """Prepare the first start with these properties: download, compile, scan; return the number of plugins.

    Needs no broker. Raises PluginsAway, JarsUnavailable, JavaMissing.
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
    """Return the catalog from the cache, or else the result of `describe`."""
    plugins = read_cached(discovery.digest)
    if plugins is None:
        text = describe()
        plugins = parse_catalog(text)
        if not has_passing_errors(text):
            store(discovery.digest, text)
    return plugins


def list_options(worker: Mapping[str, str], *, is_shared: bool = True) -> Sequence[str]:
    """Return the options of a JVM."""
    text = worker.get(OPTIONS) or DEFAULT_OPTIONS
    named = any(_COLLECTOR.search(each) for each in (text, *map(os.environ.get, _OF_JAVA)) if each)
    collector = () if named else PARALLEL if text == DEFAULT_OPTIONS else G1
    options = shlex.split(text)
    return [*TUNING, *collector, *(each for each in options if is_shared or not each.startswith(JMX_PORTS))]


def _with_java_plugins(registry: Registry, hosts: PluginHosts, everything: Sequence[JavaPlugin]) -> Registry:
    """Return the registry with the plugins of `plugin.path`.

    Connectors replace Kraal's own of the same name. Of other plugins Kraal's own stay for connectors in Python, and
    Java connectors use those in plugin.path.
    """
    log.info("Found %d Java plugins in plugin.path", len(everything))
    show_plugin_lines(each.class_name for each in everything)
    hosts.shared.services = [each for each in everything if each.is_service]
    plugins = [
        each
        for each in everything
        if each.is_connector or (not each.is_service and registry.resolve(each.class_name) != each.class_name)
    ]
    chains = {each.class_name for each in everything if not each.is_service}
    services = frozenset().union(*(each.service_names for each in hosts.shared.services))
    return registry.with_java(make_classes(plugins, hosts), chains, services)
