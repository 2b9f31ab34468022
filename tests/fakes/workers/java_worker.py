"""Real Java Connect workers, standalone or in a group with Kraal workers."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from typing_extensions import override

from kraal.broker.broker import free_port
from kraal.jars.java import find_java
from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from scripts.harness.java_connect import class_path, prepare_plugins, shutdown_agent
from tests.fakes.kafka.releases import worker_version

_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
"""The options of a JVM that starts quickly and needs little memory."""

_LOG4J2 = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers>
    <Logger name="org.apache.kafka.clients" level="WARN"/>
    <Logger name="org.apache.kafka.common" level="WARN"/>
    <Root level="INFO"><AppenderRef ref="out"/></Root>
  </Loggers>
</Configuration>
"""


class JavaWorker(WorkerProcess):
    """Java Connect from the locked jars: distributed, or standalone without a group. Not thread-safe.

    Plugins that use classes that Kafka has since moved run as copies with the new class names, because this version of
    Connect may not support the originals.
    """

    stacks_signal = signal.SIGQUIT

    def __init__(
        self,
        directory: Path,
        bootstrap: str,
        *,
        group: str | None = None,
        properties: Mapping[str, str] | None = None,
        version: str | None = None,
    ) -> None:
        """Configure the worker, by default with the Connect version of the test run. `launch` downloads the jars."""
        super().__init__(directory, bootstrap, properties=properties, group=group)
        self._version = version or worker_version()
        self._plugin_path = self.properties.get("plugin.path", "")
        self._listener_url = ""

    @override
    def launch(self) -> None:
        """Start the process, with REST on a free port."""
        self._listener_url = f"http://127.0.0.1:{free_port()}"
        self.properties |= {"listeners": self._listener_url, "plugin.discovery": "service_load"}
        if self._plugin_path:
            plugins = prepare_plugins(self._plugin_path, self._version, self.directory / "plugins")
            self.properties["plugin.path"] = plugins
        super().launch()

    @override
    def _command(self, properties: Path) -> list[str]:
        log4j2 = self.directory / "log4j2.xml"
        log4j2.write_text(_LOG4J2, encoding="ascii")
        main = f"org.apache.kafka.connect.cli.Connect{self._mode.capitalize()}"
        return [
            *(str(find_java()), *_OPTIONS, f"-Dlog4j2.configurationFile={log4j2.as_uri()}"),
            f"-javaagent:{shutdown_agent()}",
            *("-cp", class_path(self._version), main),
            str(properties),
        ]

    @override
    def _url(self) -> str | None:
        return self._listener_url or None

    @override
    def _is_responding(self) -> bool:
        with suppress(ValueError):  # until Connect is up, Jetty's responses are not JSON
            return super()._is_responding()
        return False


class MixedCluster(ProcessCluster):
    """A group of Kraal and Java workers. Not thread-safe."""

    def add_java(
        self, properties: Mapping[str, str] | None = None, *, version: str | None = None
    ) -> JavaWorker:
        """Add a Java worker, by default with the Connect version of the test run, without starting it."""
        worker = JavaWorker(
            self._directory / f"worker-{len(self.workers)}-java",
            self.bootstrap,
            properties={**self._properties, **(properties or {})},
            group=self.group,
            version=version,
        )
        self.workers.append(worker)
        return worker

    def start_java(self, properties: Mapping[str, str] | None = None) -> JavaWorker:
        """Start another Java worker, and wait for its first assignment."""
        worker = self.add_java(properties)
        self.start_all([worker])
        return worker

    def start_kraal(self, properties: Mapping[str, str] | None = None) -> WorkerProcess:
        """Start another Kraal worker, and wait for its first assignment."""
        worker = self.add(properties)
        self.start_all([worker])
        return worker
