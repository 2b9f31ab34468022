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
from kraal.testing.process import TIMEOUT_S, WorkerProcess
from tests.fakes.workers.java_worker import MixedCluster
from tests.fakes.workers.prometheus import Labels, Scraped, parse_scrape

PLUGIN_JVM_CLASS = "kraal.plugins.PluginProcess"
"""The main class of the JVMs of Java plugins."""
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
FAULTY_SOURCE = "kraal.testing.FaultySource"
FAULTY_SINK = "kraal.testing.FaultySink"
TRANSFORMS_PACKAGE = "com.github.jcustenborder.kafka.connect.transform.common"
KEY_AND_VALUE_TRANSFORMS = ("BytesToString", "ChangeCase", "ExtractNestedField", "PatternRename", "ToJSON")
TRANSFORMS = [
    f"{TRANSFORMS_PACKAGE}.ChangeTopicCase",
    f"{TRANSFORMS_PACKAGE}.ExtractTimestamp$Value",
    *(
        f"{TRANSFORMS_PACKAGE}.{name}${part}"
        for name in KEY_AND_VALUE_TRANSFORMS
        for part in ("Key", "Value")
    ),
]
"""All transforms of `kafka-connect-transform-common`."""
VERSIONED_PREFIX = "kraal.testing.Versioned"
VERSIONS = ("1.0", "2.0")
"""The versions of the plugins whose names start with `VERSIONED_PREFIX`."""
PROVIDER = "kraal.testing.RotatingConfigProvider"
POLICY = "kraal.testing.TellingConnectorClientConfigOverridePolicy"
KRAAL_ONLY_PREFIXES = ("io.confluent.connect.", "kraal.transforms.")
"""The name prefixes of plugins that Kraal has and Kafka does not."""
RUNNING = ["RUNNING", "RUNNING"]
PLUGIN_METRICS = "kafka_connect_plugins_"


def unique_name(prefix: str) -> str:
    """Return the prefix with a random suffix."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def source_config(file: Path, topic: str) -> dict[str, str]:
    """Return the config of Java's file source."""
    return {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic}


def faulty_config(topic: str, fault: str = "", at: str = "", tasks: int = 1) -> dict[str, str]:
    """Return the config of the faulty source. `at` is the method in which the fault occurs."""
    return {
        "connector.class": FAULTY_SOURCE,
        "topic": topic,
        "fault": fault,
        "fault.at": at,
        "tasks.max": str(tasks),
    }


def ledger_properties(topic: str) -> dict[str, str]:
    """Return the properties of a worker with a ledger."""
    return {"ledger.storage.topic": topic, "ledger.storage.replication.factor": "1"}


@contextmanager
def kraal_worker(directory: Path, bootstrap: str, properties: Mapping[str, str]) -> Iterator[ProcessCluster]:
    """Run a Kraal worker with Java plugins in its own group.

    Check that the worker and its JVMs exit cleanly, and that all records in its ledger, if any, are accounted for.
    """
    cluster = ProcessCluster(directory=directory, bootstrap=bootstrap, properties=properties)
    try:
        cluster.start(1)
        wait_for_plugins(cluster.alive[0])
        yield cluster
        jvms = [jvm for worker in cluster.alive for jvm in plugin_jvms(worker).values()]
        exit_codes = [worker.end() for worker in cluster.alive]
    finally:
        cluster.close()
    assert exit_codes == [0] * len(exit_codes), cluster.workers[0].log_text()
    assert not any(jvm.is_running() for jvm in jvms)
    for worker in cluster.workers:
        assert "are not accounted for" not in worker.log_text()


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
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)


def wait_for_values(cluster: ProcessCluster, topic: str, values: Sequence[str]) -> None:
    """Wait until a topic contains exactly these values, in this order."""
    cluster.alive[0].wait_until(
        f"{topic} had {len(values)} values", lambda: cluster.values(topic) == list(values)
    )


def stored_offsets(cluster: ProcessCluster, name: str) -> list[tuple[bytes, bytes | None]]:
    """Return a source's keys and values in the offsets topic, in order. NAME replaces the source's name in the keys."""
    return [
        (record.key.replace(name.encode(), b"NAME"), record.value)
        for record in cluster.records(cluster.alive[0].properties["offset.storage.topic"])
        if record.key is not None and record.key.startswith(f'["{name}",'.encode())
    ]


def list_plugins(worker: WorkerProcess, plugins: Sequence[str]) -> list[dict[str, str]]:
    """Return the entries of these plugins in a worker's plugin listing, in the order of the listing."""
    return [plugin for plugin in worker.get("/connector-plugins").body if plugin["class"] in plugins]


def describe_keys(worker: WorkerProcess, plugin: str) -> list[dict[str, Any]]:
    """Return the descriptions of a plugin's keys, without the documentation of the framework's keys."""
    response = worker.get(f"/connector-plugins/{plugin}/config")
    assert response.status == 200, response
    # The framework's keys follow the plugin's.
    own_count = [key["name"] for key in response.body].index("name")
    return [
        key | ({} if index < own_count else {"documentation": ""}) for index, key in enumerate(response.body)
    ]


def validate_config(worker: WorkerProcess, config: Mapping[str, str]) -> dict[str, Any]:
    """Return the validation result of a config by key, without the differences that docs/compat.md permits.

    The differences are the order of keys and groups, documentation, and Kraal's own plugins in recommended values.
    """
    path = f"/connector-plugins/{config['connector.class']}/config/validate"
    response = worker.put(path, {"name": "any", **config})
    assert response.status == 200, response
    configs: dict[str, Any] = {}
    for entry in response.body["configs"]:
        if entry["value"]:  # Java returns null for keys that a connector's `validate` does not return
            entry["definition"]["documentation"] = ""
            values = entry["value"]["recommended_values"]
            entry["value"]["recommended_values"] = [
                value for value in values if not value.startswith(KRAAL_ONLY_PREFIXES)
            ]
            configs[entry["value"]["name"]] = entry
    return {**response.body, "configs": configs, "groups": sorted(response.body["groups"])}


def has_restarted(cluster: ProcessCluster, name: str, times: int, state: str) -> bool:
    """Return whether a connector and its task have restarted `times` times and are now in `state`."""
    states: dict[str, list[str]] = {f"status-connector-{name}": [], f"status-task-{name}-0": []}
    for record in cluster.records(cluster.alive[0].properties["status.storage.topic"]):
        key = (record.key or b"").decode()
        if key in states and record.value is not None:
            states[key].append(json.loads(record.value)["state"])
    return all(history.count("RESTARTING") == times and history[-1] == state for history in states.values())


def plugin_jvms(worker: WorkerProcess) -> dict[str, psutil.Process]:
    """Return the JVMs of Java plugins by connector name. The key of the shared JVM is the empty string."""
    jvms = {}
    for process in worker.tree():
        with suppress(psutil.NoSuchProcess):
            _, main, connector = " ".join(process.cmdline()).partition(PLUGIN_JVM_CLASS)
            if main:
                jvms[connector.strip()] = process
    return jvms


def plugin_jvm(worker: WorkerProcess, connector: str = "") -> psutil.Process:
    """Return the JVM of a connector, or the shared JVM by default. Raises AssertionError if the JVM is not running."""
    jvms = plugin_jvms(worker)
    assert connector in jvms, f"only {list(jvms)} have a JVM"
    return jvms[connector]


def thread_names(pid: int) -> set[str]:
    """Return the names of a process's threads, truncated to 15 bytes."""
    names = set()
    for path in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has exited
            names.add((path / "comm").read_text().strip())
    return names


def read_numbers(cluster: ProcessCluster, topic: str) -> list[int]:
    """Return the numbers that a faulty source has written to a topic."""
    return [int(value) for value in cluster.values(topic) if value is not None]


def wait_for_more(cluster: ProcessCluster, topic: str) -> None:
    """Wait until a faulty source has written more than 50 further numbers."""
    last = max(read_numbers(cluster, topic), default=0)
    cluster.alive[0].wait_until(
        "more numbers arrived", lambda: max(read_numbers(cluster, topic), default=0) > last + 50
    )


def wait_for_plugins(worker: WorkerProcess) -> None:
    """Wait until the JVM of Java plugins is ready."""
    worker.wait_until("Java plugins were ready", lambda: "Java plugins are ready" in worker.log_text())


def scrape(worker: WorkerProcess) -> Scraped:
    """Return the parsed response of `GET /metrics`."""
    response = httpx2.get(f"{worker.url}/metrics", timeout=TIMEOUT_S, trust_env=False)
    assert response.status_code == 200
    return parse_scrape(response.text)


def read_starts(worker: WorkerProcess, name: str) -> dict[Labels, float]:
    """Return the number of starts of a faulty source and of its tasks from `/metrics`."""
    metrics = scrape(worker)
    families = (metrics.all_of(f"{PLUGIN_METRICS}{kind}_starts_total") for kind in ("connector", "task"))
    return {
        labels: number
        for family in families
        for labels, number in family.items()
        if ("connector", name) in labels
    }


def restart_and_wait(cluster: ProcessCluster, name: str) -> None:
    """Restart a faulty source with its tasks, and wait until all have restarted."""
    worker = cluster.alive[0]
    # The metrics of a JVM that has just started are missing at first.
    worker.wait_until(f"the starts of {name} were counted", lambda: len(read_starts(worker, name)) > 1)
    counts_before = read_starts(worker, name)

    def has_restarted() -> bool:
        counts = read_starts(worker, name)
        return counts.keys() == counts_before.keys() and all(
            counts[key] > counts_before[key] for key in counts
        )

    cluster.restart(name)
    worker.wait_until(f"{name} had restarted", has_restarted)
