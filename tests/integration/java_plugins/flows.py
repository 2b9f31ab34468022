"""Helpers for tests of Java plugins: unique connector names, configs, workers, and access to results."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil

from kraal.testing import ProcessCluster
from kraal.testing.process import WorkerProcess
from tests.fakes.workers.java_worker import MixedCluster
from tests.fakes.workers.prometheus import Labels, Scraped, scraped

PROCESS = "kraal.plugins.PluginProcess"
"""The main class of the JVMs of Java plugins."""
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
FAULTY = "kraal.testing.FaultySource"
FAULTY_SINK = "kraal.testing.FaultySink"
TRANSFORMS_PACKAGE = "com.github.jcustenborder.kafka.connect.transform.common"
TRANSFORMS_OF_BOTH = ("BytesToString", "ChangeCase", "ExtractNestedField", "PatternRename", "ToJSON")
TRANSFORMS = [
    f"{TRANSFORMS_PACKAGE}.ChangeTopicCase",
    f"{TRANSFORMS_PACKAGE}.ExtractTimestamp$Value",
    *(f"{TRANSFORMS_PACKAGE}.{name}${of}" for name in TRANSFORMS_OF_BOTH for of in ("Key", "Value")),
]
"""All of `kafka-connect-transform-common`."""
VERSIONED = "kraal.testing.Versioned"
VERSIONS = ("1.0", "2.0")
"""The versions of the plugins whose names start with `VERSIONED`."""
PROVIDER = "kraal.testing.RotatingConfigProvider"
POLICY = "kraal.testing.TellingConnectorClientConfigOverridePolicy"
OWN = ("io.confluent.connect.", "kraal.transforms.")
"""The name prefixes of Kraal's plugins that Kafka does not have."""
RUNNING = ["RUNNING", "RUNNING"]
PLUGINS = "kafka_connect_plugins_"


def unique_name(what: str) -> str:
    """Return a unique name."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def source_config(file: Path, topic: str) -> dict[str, str]:
    """Return the config of Java's file source."""
    return {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic}


def faulty_config(topic: str, fault: str = "", at: str = "", tasks: int = 1) -> dict[str, str]:
    """Return the config of the faulty source; `at` is the method that has the fault."""
    return {
        "connector.class": FAULTY,
        "topic": topic,
        "fault": fault,
        "fault.at": at,
        "tasks.max": str(tasks),
    }


@contextmanager
def kraal_worker(directory: Path, bootstrap: str, properties: Mapping[str, str]) -> Iterator[ProcessCluster]:
    """Run a Kraal worker with Java plugins in its own group; check that it and its JVMs exit cleanly."""
    cluster = ProcessCluster(directory=directory, bootstrap=bootstrap, properties=properties)
    try:
        cluster.start(1)
        wait_for_plugins(cluster.alive[0])
        yield cluster
        jvms = [jvm for worker in cluster.alive for jvm in plugin_jvms(worker).values()]
        codes = [worker.end() for worker in cluster.alive]
    finally:
        cluster.close()
    assert codes == [0] * len(codes), cluster.workers[0].log_text()
    assert not any(jvm.is_running() for jvm in jvms)


@contextmanager
def java_worker(directory: Path, bootstrap: str, properties: Mapping[str, str]) -> Iterator[MixedCluster]:
    """Run a Java worker in its own group."""
    cluster = MixedCluster(directory=directory, bootstrap=bootstrap, properties=properties)
    try:
        cluster.start_java()
        yield cluster
    finally:
        cluster.close()


def append(file: Path, *lines: str) -> None:
    """Append lines to a file."""
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(f"{line}\n" for line in lines)


def wait_for_values(cluster: ProcessCluster, topic: str, values: Sequence[str]) -> None:
    """Wait until a topic contains exactly these values, in this order."""
    cluster.alive[0].wait_until(
        f"{topic} had {len(values)} values", lambda: cluster.values(topic) == list(values)
    )


def stored_offsets(side: ProcessCluster, name: str) -> list[tuple[bytes, bytes | None]]:
    """Return a source's keys and values in the offsets topic, in order, with NAME in place of its name."""
    return [
        (each.key.replace(name.encode(), b"NAME"), each.value)
        for each in side.records(side.alive[0].properties["offset.storage.topic"])
        if each.key is not None and each.key.startswith(f'["{name}",'.encode())
    ]


def list_plugins(worker: WorkerProcess, plugins: Sequence[str]) -> list[dict[str, str]]:
    """Return the entries of these plugins in a worker's plugin listing, in its order."""
    return [each for each in worker.get("/connector-plugins").body if each["class"] in plugins]


def describe_keys(worker: WorkerProcess, plugin: str) -> list[dict[str, Any]]:
    """Return the descriptions of a plugin's keys, without the documentation of the framework's keys."""
    response = worker.get(f"/connector-plugins/{plugin}/config")
    assert response.status == 200, response
    own = [each["name"] for each in response.body].index("name")  # the framework's keys follow the plugin's
    return [each | ({} if at < own else {"documentation": ""}) for at, each in enumerate(response.body)]


def validate_config(worker: WorkerProcess, config: Mapping[str, str]) -> dict[str, Any]:
    """Return the validation result of a config by key, without the differences that docs/compat.md permits.

    These are the order of keys and groups, documentation, and Kraal's own plugins in recommended values.
    """
    path = f"/connector-plugins/{config['connector.class']}/config/validate"
    response = worker.put(path, {"name": "any", **config})
    assert response.status == 200, response
    configs: dict[str, Any] = {}
    for each in response.body["configs"]:
        if each["value"]:  # Java returns null for keys that a connector's `validate` does not return
            each["definition"]["documentation"] = ""
            values = each["value"]["recommended_values"]
            each["value"]["recommended_values"] = [value for value in values if not value.startswith(OWN)]
            configs[each["value"]["name"]] = each
    return {**response.body, "configs": configs, "groups": sorted(response.body["groups"])}


def has_restarted(side: ProcessCluster, name: str, times: int, state: str) -> bool:
    """Return whether a connector and its task have restarted `times` times, and now have this state."""
    states: dict[str, list[str]] = {f"status-connector-{name}": [], f"status-task-{name}-0": []}
    for each in side.records(side.alive[0].properties["status.storage.topic"]):
        key = (each.key or b"").decode()
        if key in states and each.value is not None:
            states[key].append(json.loads(each.value)["state"])
    return all(had.count("RESTARTING") == times and had[-1] == state for had in states.values())


def plugin_jvms(worker: WorkerProcess) -> dict[str, psutil.Process]:
    """Return the JVMs of Java plugins by connector name; the name of the shared JVM is empty."""
    jvms = {}
    for process in worker.tree():
        with suppress(psutil.NoSuchProcess):
            _, main, connector = " ".join(process.cmdline()).partition(PROCESS)
            if main:
                jvms[connector.strip()] = process
    return jvms


def plugin_jvm(worker: WorkerProcess, connector: str = "") -> psutil.Process:
    """Return a connector's own JVM, or the shared JVM. Raises AssertionError if it is not running."""
    jvms = plugin_jvms(worker)
    assert connector in jvms, f"only {list(jvms)} have a JVM"
    return jvms[connector]


def threads(pid: int) -> set[str]:
    """Return the names of a process's threads, truncated to 15 bytes."""
    names = set()
    for each in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has exited meanwhile
            names.add((each / "comm").read_text().strip())
    return names


def numbers(cluster: ProcessCluster, topic: str) -> list[int]:
    """Return the numbers that the faulty source has written."""
    return [int(each) for each in cluster.values(topic) if each is not None]


def wait_for_more(cluster: ProcessCluster, topic: str) -> None:
    """Wait until the topic contains more numbers than before."""
    last = max(numbers(cluster, topic), default=0)
    cluster.alive[0].wait_until(
        "more numbers arrived", lambda: max(numbers(cluster, topic), default=0) > last + 50
    )


def wait_for_plugins(worker: WorkerProcess) -> None:
    """Wait until the JVM of Java plugins is up."""
    worker.wait_until("Java plugins were ready", lambda: "Java plugins are ready" in worker.log_text())


def scrape(worker: WorkerProcess) -> Scraped:
    """Return the parsed response of `GET /metrics`."""
    response = httpx2.get(f"{worker.url}/metrics")
    assert response.status_code == 200
    return scraped(response.text)


def starts(worker: WorkerProcess, name: str) -> dict[Labels, float]:
    """Return the number of starts of a faulty source and of its tasks from `/metrics`."""
    metrics = scrape(worker)
    both = (metrics.all_of(f"{PLUGINS}{which}_starts_total") for which in ("connector", "task"))
    return {
        labels: number for each in both for labels, number in each.items() if ("connector", name) in labels
    }


def restart(cluster: ProcessCluster, name: str) -> None:
    """Restart a faulty source with its tasks, and wait until all have restarted."""
    worker = cluster.alive[0]
    before = starts(worker, name)
    assert before, f"{name} must be running"

    def has_restarted() -> bool:
        now = starts(worker, name)
        return now.keys() == before.keys() and all(now[each] > before[each] for each in now)

    cluster.restart(name)
    worker.wait_until(f"{name} had restarted", has_restarted)
