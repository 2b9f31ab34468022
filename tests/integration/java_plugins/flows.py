"""What tests of Java plugins do again and again: connectors of names of their own, and what they wrote."""

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
"""How the names of Kraal's own plugins begin that Kafka does not have."""
RUNNING = ["RUNNING", "RUNNING"]
PLUGINS = "kafka_connect_plugins_"


def a_name(what: str) -> str:
    """Return a name that no other test uses."""
    return f"{what}-{uuid.uuid4().hex[:8]}"


def source_config(file: Path, topic: str) -> dict[str, str]:
    """Return the config of Java's file source."""
    return {"connector.class": FILE_SOURCE, "file": str(file), "topic": topic}


def faulty_config(topic: str, fault: str = "", at: str = "", tasks: int = 1) -> dict[str, str]:
    """Return the config of the faulty source: what goes wrong, and in which method."""
    return {
        "connector.class": FAULTY,
        "topic": topic,
        "fault": fault,
        "fault.at": at,
        "tasks.max": str(tasks),
    }


@contextmanager
def kraal_worker(place: Path, bootstrap: str, properties: Mapping[str, str]) -> Iterator[ProcessCluster]:
    """Run a Kraal worker with Java plugins in a group of its own; it must end well, and its JVMs with it."""
    made = ProcessCluster(directory=place, bootstrap=bootstrap, properties=properties)
    try:
        made.start(1)
        wait_for_plugins(made.alive[0])
        yield made
        jvms = [jvm for worker in made.alive for jvm in plugin_jvms(worker).values()]
        codes = [worker.end() for worker in made.alive]
    finally:
        made.close()
    assert codes == [0] * len(codes), made.workers[0].log_text()
    assert not any(jvm.is_running() for jvm in jvms)


@contextmanager
def java_worker(place: Path, bootstrap: str, properties: Mapping[str, str]) -> Iterator[MixedCluster]:
    """Run a Java worker in a group of its own."""
    made = MixedCluster(directory=place, bootstrap=bootstrap, properties=properties)
    try:
        made.start_java()
        yield made
    finally:
        made.close()


def append(file: Path, *lines: str) -> None:
    """Append lines to a file."""
    with file.open("a", encoding="utf-8") as opened:
        opened.writelines(f"{line}\n" for line in lines)


def wait_for_values(cluster: ProcessCluster, topic: str, values: Sequence[str]) -> None:
    """Wait until a topic has exactly these values, in this order."""
    cluster.alive[0].wait_until(
        f"{topic} had {len(values)} values", lambda: cluster.values(topic) == list(values)
    )


def stored_offsets(side: ProcessCluster, name: str) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values in the offsets topic of a source, in order, with NAME for its name."""
    return [
        (each.key.replace(name.encode(), b"NAME"), each.value)
        for each in side.records(side.alive[0].properties["offset.storage.topic"])
        if each.key is not None and each.key.startswith(f'["{name}",'.encode())
    ]


def listed(worker: WorkerProcess, plugins: Sequence[str]) -> list[dict[str, str]]:
    """Return the entries of these plugins in the list of a worker, in its order."""
    return [each for each in worker.get("/connector-plugins").body if each["class"] in plugins]


def described(worker: WorkerProcess, plugin: str) -> list[dict[str, Any]]:
    """Return the description of a plugin's keys; of Connect's, whose documentation is Kraal's, without it."""
    answer = worker.get(f"/connector-plugins/{plugin}/config")
    assert answer.status == 200, answer
    own = [each["name"] for each in answer.body].index("name")  # Connect's keys come after the plugin's
    return [each | ({} if at < own else {"documentation": ""}) for at, each in enumerate(answer.body)]


def validated(worker: WorkerProcess, config: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer to a config, by key, without what docs/compat.md says of it.

    That is the order of keys and groups, documentation, and Kraal's own plugins among recommended values.
    """
    path = f"/connector-plugins/{config['connector.class']}/config/validate"
    answer = worker.put(path, {"name": "any", **config})
    assert answer.status == 200, answer
    found: dict[str, Any] = {}
    for each in answer.body["configs"]:
        if each["value"]:  # of keys that a connector's validate does not return, Java shows null
            each["definition"]["documentation"] = ""
            values = each["value"]["recommended_values"]
            each["value"]["recommended_values"] = [value for value in values if not value.startswith(OWN)]
            found[each["value"]["name"]] = each
    return {**answer.body, "configs": found, "groups": sorted(answer.body["groups"])}


def has_restarted(side: ProcessCluster, name: str, times: int, state: str) -> bool:
    """Return whether a connector and its task have restarted so often, by the status topic, and now have this state."""
    states: dict[str, list[str]] = {f"status-connector-{name}": [], f"status-task-{name}-0": []}
    for each in side.records(side.alive[0].properties["status.storage.topic"]):
        key = (each.key or b"").decode()
        if key in states and each.value is not None:
            states[key].append(json.loads(each.value)["state"])
    return all(had.count("RESTARTING") == times and had[-1] == state for had in states.values())


def plugin_jvms(worker: WorkerProcess) -> dict[str, psutil.Process]:
    """Return the JVMs that run Java plugins, by their connectors; the shared one has an empty name."""
    found = {}
    for process in worker.tree():
        with suppress(psutil.NoSuchProcess):
            _, main, connector = " ".join(process.cmdline()).partition(PROCESS)
            if main:
                found[connector.strip()] = process
    return found


def plugin_jvm(worker: WorkerProcess, connector: str = "") -> psutil.Process:
    """Return a connector's own JVM, or the shared one. Raises AssertionError if it does not run."""
    found = plugin_jvms(worker)
    assert connector in found, f"only {list(found)} have a JVM"
    return found[connector]


def threads(pid: int) -> set[str]:
    """Return the names of a process's threads, the first 15 bytes of each."""
    found = set()
    for each in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            found.add((each / "comm").read_text().strip())
    return found


def numbers(cluster: ProcessCluster, topic: str) -> list[int]:
    """Return what the faulty source has written."""
    return [int(each) for each in cluster.values(topic) if each is not None]


def wait_for_more(cluster: ProcessCluster, topic: str) -> None:
    """Wait until numbers come that were not there before."""
    last = max(numbers(cluster, topic), default=0)
    cluster.alive[0].wait_until("it went on", lambda: max(numbers(cluster, topic), default=0) > last + 50)


def wait_for_plugins(worker: WorkerProcess) -> None:
    """Wait until the JVM of Java plugins is up."""
    worker.wait_until("Java plugins were ready", lambda: "Java plugins are ready" in worker.log_text())


def scrape(worker: WorkerProcess) -> Scraped:
    """Return what `GET /metrics` answers."""
    answer = httpx2.get(f"{worker.url}/metrics")
    assert answer.status_code == 200
    return scraped(answer.text)


def starts(worker: WorkerProcess, name: str) -> dict[Labels, float]:
    """Return the number of the last start of a faulty source and of its tasks, as they are in `/metrics`."""
    found = scrape(worker)
    both = (found.all_of(f"{PLUGINS}{which}_starts_total") for which in ("connector", "task"))
    return {
        labels: number for each in both for labels, number in each.items() if ("connector", name) in labels
    }


def restart(cluster: ProcessCluster, name: str) -> None:
    """Restart a faulty source with its tasks, and wait until all of them have started again."""
    worker = cluster.alive[0]
    before = starts(worker, name)
    assert before, f"{name} runs"

    def started_again() -> bool:
        now = starts(worker, name)
        return now.keys() == before.keys() and all(now[each] > before[each] for each in now)

    cluster.restart(name)
    worker.wait_until(f"{name} had started again", started_again)
