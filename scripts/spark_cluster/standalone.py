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
    """A master and some workers; each can be killed and started again. Not thread-safe."""

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
        """Describe the cluster without starting it.

        Args:
            directory: for configuration, logs and the applications' files.
            workers: number of Spark workers.
            cores: what each of them offers.
            memory: likewise.
            environment: of the workers, and so of executors.
            properties: `spark.*` of the master and the workers.
        """
        self.directory = directory
        self.secret = secrets.token_hex(16)
        self.port, self._web = free_port(), free_port()
        self._cores, self._memory = cores, memory
        self._environment = dict(environment or {})
        self._properties = {
            "spark.authenticate": "true",
            "spark.master.rest.enabled": "false",  # it takes applications without the secret
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
        """What a Kraal worker needs to use the cluster."""
        return {"spark.master": self.master, "spark.authenticate": "true", SECRET: self.secret}

    def start(self) -> None:
        """Start what does not run, and wait until all workers are known to the master. Raises ScriptFailed."""
        self.start_master()
        for name in self._names:
            self.start_worker(name)
        wait_until(
            "the Spark workers were registered",
            lambda: self.alive() == len(self._names),
            timeout_s=START_TIMEOUT_S,
        )

    def start_master(self) -> None:
        """Start the master unless it runs, and wait until it answers."""
        places = ("--host", HOST, "--port", str(self.port), "--webui-port", str(self._web))
        master = self._start("master", "master.Master", *places)
        wait_until("Spark's master answered", self._answers, timeout_s=START_TIMEOUT_S, program=master)

    def start_worker(self, name: str) -> None:
        """Start a worker unless it runs; returns at once."""
        offers = ("--cores", str(self._cores), "--memory", self._memory)
        files = ("--work-dir", str(self.directory / name), "--webui-port", "0")
        self._start(name, "worker.Worker", "--host", HOST, *offers, *files, self.master)

    def running(self, name: str) -> Running:
        """Return the process of `master`, `worker-0` and so on."""
        return self._running[name]

    def state(self) -> dict[str, Any]:
        """Return what the master says about its workers and applications."""
        answer = httpx2.get(f"http://{HOST}:{self._web}/json/", timeout=10.0, trust_env=False)
        return dict(answer.json())

    def alive(self) -> int:
        """Return the number of workers that the master counts as alive."""
        return sum(worker["state"] == "ALIVE" for worker in self.state()["workers"])

    def executors(self) -> list[int]:
        """Return the pids of all executors."""
        name = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
        known = (process for running in self._running.values() for process in running.tree())
        return sorted({process.pid for process in known if name in process.cmdline()})

    def stop(self) -> None:
        """End everything that was started."""
        for name in reversed(list(self._running)):
            self._running[name].stop(5.0)

    def _start(self, name: str, main: str, *arguments: str) -> Running:
        if (known := self._running.get(name)) is not None and known.alive:
            return known
        self.directory.mkdir(parents=True, exist_ok=True)
        conf = self.directory / "conf"
        conf.mkdir(exist_ok=True)
        properties = conf / "cluster.properties"
        properties.touch(mode=0o600)
        given = "".join(f"{key} {value}\n" for key, value in self._properties.items())
        properties.write_text(given, encoding="utf-8")
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
        started = Running(command, log=self.directory / f"{name}.log", cwd=self.directory, env=environment)
        self._running[name] = started
        return started

    def _answers(self) -> bool:
        try:
            return bool(self.state()["status"] == "ALIVE")
        except (httpx2.HTTPError, json.JSONDecodeError):
            return False


def _home() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ScriptFailed("PySpark is not installed.")
    return Path(spec.origin).parent
