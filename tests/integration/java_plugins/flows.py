"""What tests of Java plugins do again and again: connectors of names of their own, and what they wrote."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import psutil

from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
FAULTY = "kraal.testing.FaultySource"
RUNNING = ["RUNNING", "RUNNING"]


def a_name(what: str) -> str:
    """Return a name that no other test uses."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def source_config(file: Path, topic: str) -> dict[str, str]:
    """Return the config of Java's file source."""
    return {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic}


def faulty_config(topic: str, fault: str = "", tasks: int = 1) -> dict[str, str]:
    """Return the config of the faulty source."""
    return {"connector.class": FAULTY, "topic": topic, "fault": fault, "tasks.max": str(tasks)}


def append(file: Path, *lines: str) -> None:
    """Append lines to a file."""
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(f"{line}\n" for line in lines)


def wait_for_values(cluster: ProcessCluster, topic: str, values: Sequence[str]) -> None:
    """Wait until a topic has exactly these values, in this order."""
    cluster.alive[0].wait_until(
        f"{topic} had {len(values)} values", lambda: cluster.values(topic) == list(values)
    )


def plugin_jvm(worker: WorkerProcess) -> psutil.Process:
    """Return the JVM that runs Java plugins; fails the test if none runs."""
    for process in worker.tree():
        try:
            if any("kraal.plugins.PluginProcess" in each for each in process.cmdline()):
                return process
        except psutil.NoSuchProcess:
            continue
    raise AssertionError("the worker has no JVM of Java plugins")


def wait_for_plugins(worker: WorkerProcess) -> None:
    """Wait until the JVM of Java plugins is up."""
    worker.wait_until("Java plugins were ready", lambda: "Java plugins are ready" in worker.log_text())
