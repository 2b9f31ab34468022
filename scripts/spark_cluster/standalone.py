"""A standalone Spark cluster on loopback: a master and its workers, which require a shared secret."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2

from kraal.broker.broker import free_port
from kraal.jars.java import find_java
from scripts.harness.processes import Running, ScriptFailed, wait_until

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
SECRET = "spark.authenticate.secret"  # noqa: S105 - the name of a key
_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -Djava.net.preferIPv4Stack=true"


class SparkStandalone:
    """A Spark master and its workers, each of which can be killed and restarted. Not thread-safe."""

    def __init__(
        self,
        directory: Path,
        *,
        workers: int = 2,
        cores: int = 2,
        memory: str = "3g",
        environment: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Create the cluster without starting it.

        Args:
            directory: directory for configuration, logs and the applications' files.
            workers: number of Spark workers.
            cores: number of cores of each worker.
            memory: memory of each worker.
            environment: environment variables of the workers, which executors inherit.
            properties: `spark.*` properties of the master and the workers.
        """
        self.directory = directory
        self.secret = secrets.token_hex(16)
        self.port, self._web_port = free_port(), free_port()
        self._cores, self._memory = cores, memory
        self._environment = dict(environment or {})
        self._properties = {
            "spark.authenticate": "true",
            "spark.master.rest.enabled": "false",  # the REST port accepts applications without the secret
            SECRET: self.secret,
            **(properties or {}),
        }
        self._running: dict[str, Running] = {}
        self._names = [f"worker-{number}" for number in range(workers)]

    @property
    def master(self) -> str:
        """The value of `spark.master`."""
        return f"spark://{HOST}:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """The worker properties with which Kraal uses the cluster."""
        return {"spark.master": self.master, "spark.authenticate": "true", SECRET: self.secret}

    def start(self) -> None:
        """Start all processes that are not running, and wait until all workers are registered. Raises ScriptFailed."""
        self.start_master()
        for name in self._names:
            self.start_worker(name)
        wait_until(
            "the Spark workers were registered",
            lambda: self.alive() == len(self._names),
            timeout_s=START_TIMEOUT_S,
        )

    def start_master(self) -> None:
        """Start the master unless it is running, and wait until it responds."""
        addresses = ("--host", HOST, "--port", str(self.port), "--webui-port", str(self._web_port))
        master = self._start("master", "master.Master", *addresses)
        wait_until("Spark's master responded", self._is_up, timeout_s=START_TIMEOUT_S, program=master)

    def start_worker(self, name: str) -> None:
        """Start a worker unless it is running, without waiting for it."""
        resources = ("--cores", str(self._cores), "--memory", self._memory)
        options = ("--work-dir", str(self.directory / name), "--webui-port", "0")
        self._start(name, "worker.Worker", "--host", HOST, *resources, *options, self.master)

    def get_process(self, name: str) -> Running:
        """Return the process of `master`, `worker-0` and so on."""
        return self._running[name]

    def state(self) -> dict[str, Any]:
        """Return the master's state of its workers and applications."""
        response = httpx2.get(f"http://{HOST}:{self._web_port}/json/", timeout=10.0, trust_env=False)
        return dict(response.json())

    def alive(self) -> int:
        """Return the number of workers that are alive according to the master."""
        return sum(worker["state"] == "ALIVE" for worker in self.state()["workers"])

    def executors(self) -> list[int]:
        """Return the pids of all executors."""
        name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
        processes = (process for running in self._running.values() for process in running.tree())
        return sorted({process.pid for process in processes if name in process.cmdline()})

    def stop(self) -> None:
        """Stop all processes."""
        for name in reversed(list(self._running)):
            self._running[name].stop(5.0)

    def _start(self, name: str, main: str, *arguments: str) -> Running:
        if (running_process := self._running.get(name)) is not None and running_process.alive:
            return running_process
        self.directory.mkdir(parents=True, exist_ok=True)
        conf = self.directory / "conf"
        conf.mkdir(exist_ok=True)
        properties = conf / "cluster.properties"
        properties.touch(mode=0o600)
        text = "".join(f"{key} {value}\n" for key, value in self._properties.items())
        properties.write_text(text, encoding="utf-8")
        home = _home()
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": _SMALL_JVM,
            "JAVA_HOME": str(find_java().resolve().parents[1]),
            **self._environment,
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}"]
        command += ["--properties-file", str(properties), *arguments]
        process = Running(command, log=self.directory / f"{name}.log", cwd=self.directory, env=environment)
        self._running[name] = process
        return process

    def _is_up(self) -> bool:
        try:
            return bool(self.state()["status"] == "ALIVE")
        except (httpx2.HTTPError, json.JSONDecodeError):
            return False


def _home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ScriptFailed("PySpark is not installed.")
    return Path(spec.origin).parent
