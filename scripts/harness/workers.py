"""Runs Java Connect and Kraal workers with the same worker properties."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kraal.broker.broker import free_port
from kraal.jars.java import find_java
from scripts.harness.java_connect import CURRENT, class_path
from scripts.harness.processes import Running, wait_until
from scripts.harness.rest import Rest

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 90.0
REBALANCE_TIMEOUT_S = 60.0
"""Maximum time for retrying a request that returns 409 because of a rebalance."""
STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"

# The default Java options of Connect's own connect-standalone.sh and kafka-run-class.sh.
JAVA_OPTIONS = (
    "-Xms256M -Xmx2G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 -Djava.awt.headless=true"
)

LOG4J2_CONFIG = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True, slots=True)
class Worker:
    """A started worker."""

    name: str
    process: Running
    rest: Rest

    def wait_until_up(self) -> None:
        """Wait until REST is available. Raises ScriptFailed on a timeout."""
        wait_until(f"{self.name} was up", self.rest.is_up, timeout_s=START_TIMEOUT_S, program=self.process)

    def wait_until_running(self, connector: str) -> None:
        """Wait until a connector and its tasks run. Raises ScriptFailed if one of them fails."""
        what = f"{connector} was RUNNING"
        wait_until(
            what, lambda: self.rest.is_running(connector), timeout_s=START_TIMEOUT_S, program=self.process
        )

    def stop(self) -> None:
        """Stop the worker and its child processes."""
        self.rest.close()
        self.process.stop()


def kraal_standalone(
    bootstrap: str,
    directory: Path,
    *,
    port: int | None = None,
    extra: Mapping[str, str] | None = None,
    connectors: tuple[Path, ...] = (),
) -> Worker:
    """Start `kraal standalone` with its files in `directory`; `port` is the REST port, by default a free port."""
    port = port or free_port()
    properties = _standalone_properties(bootstrap, directory, port, extra or {})
    return Worker("Kraal", _run_kraal("standalone", directory, properties, *connectors), Rest(port))


def java_standalone(
    bootstrap: str, directory: Path, extra: Mapping[str, str] | None = None, *, version: str = CURRENT
) -> Worker:
    """Start a standalone Java worker with its files in `directory` and REST on a free port."""
    port = free_port()
    properties = _standalone_properties(bootstrap, directory, port, extra or {})
    return _start_java("ConnectStandalone", "Java", directory, properties, port, version=version)


def java_distributed(bootstrap: str, directory: Path) -> Worker:
    """Start one distributed Java worker in its own group, with REST on a free port."""
    return distributed("java", bootstrap, directory, group=f"bench-{free_port()}")


def kraal_distributed(bootstrap: str, directory: Path) -> Worker:
    """Start one `kraal distributed` worker in its own group, with REST on a free port."""
    return distributed("kraal", bootstrap, directory, group=f"bench-{free_port()}")


def distributed(
    kind: str,
    bootstrap: str,
    directory: Path,
    *,
    group: str,
    port: int | None = None,
    extra: Mapping[str, str] | None = None,
    version: str = CURRENT,
) -> Worker:
    """Start a distributed worker of `group`, `java` or `kraal`, with its files in `directory`.

    The group's topics are `GROUP-config`, `GROUP-offset` and `GROUP-status`. `port` is the REST port, by default a free
    port. `version` is that of a Java worker.
    """
    port = port or free_port()
    settings = _common_properties(bootstrap, port) | {"group.id": group}
    for topic in ("config", "offset", "status"):
        settings[f"{topic}.storage.topic"] = f"{group}-{topic}"
        settings[f"{topic}.storage.replication.factor"] = "1"
    if kind == "kraal":
        settings["kraal.data.dir"] = str(directory / "data")  # a killed worker leaves its files there
    properties = write_properties(directory / "worker.properties", settings | dict(extra or {}))
    if kind == "java":
        return _start_java(
            "ConnectDistributed",
            "Java distributed",
            directory,
            properties,
            port,
            REBALANCE_TIMEOUT_S,
            version,
        )
    return Worker(
        "Kraal distributed",
        _run_kraal("distributed", directory, properties),
        Rest(port, retry_timeout_s=REBALANCE_TIMEOUT_S),
    )


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """Write a properties file, creating its directory; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="ascii")
    return path


def _common_properties(bootstrap: str, port: int) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "key.converter": STRING_CONVERTER,
        "value.converter": STRING_CONVERTER,
        "listeners": f"http://127.0.0.1:{port}",
    }


def _standalone_properties(bootstrap: str, directory: Path, port: int, extra: Mapping[str, str]) -> Path:
    offsets = {"offset.storage.file.filename": str(directory / "offsets")}
    return write_properties(
        directory / "worker.properties", _common_properties(bootstrap, port) | offsets | dict(extra)
    )


def _run_kraal(mode: str, directory: Path, properties: Path, *connectors: Path) -> Running:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [*_kraal_command(), mode, str(properties), *map(str, connectors)]
    environment = os.environ | {"PYTHONPATH": path}
    return Running(command, log=directory / "worker.log", cwd=directory, env=environment)


def _kraal_command() -> list[str]:
    """Return the command line of `kraal`: the installed command, or its equivalent for a checkout."""
    command = Path(sys.executable).with_name("kraal")
    return (
        [str(command)]
        if command.exists()
        else [sys.executable, "-c", "from kraal.cli.main import main; main()"]
    )


def _start_java(
    main: str,
    name: str,
    directory: Path,
    properties: Path,
    port: int,
    retry_timeout_s: float = 0.0,
    version: str = CURRENT,
) -> Worker:
    log4j2 = directory / "log4j2.xml"
    log4j2.write_text(LOG4J2_CONFIG, encoding="ascii")
    command = [str(find_java()), *JAVA_OPTIONS.split(), f"-Dlog4j2.configurationFile={log4j2.as_uri()}"]
    command += ["-cp", class_path(version), f"org.apache.kafka.connect.cli.{main}", str(properties)]
    process = Running(command, log=directory / "worker.log", cwd=directory, env=os.environ)
    return Worker(name, process, Rest(port, retry_timeout_s=retry_timeout_s))
