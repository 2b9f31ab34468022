"""Captures group metadata, assignments and internal topics of Java workers for `tests/golden`.

    python -m scripts.harness.capture_golden DIRECTORY

Starts a broker and groups of two Java workers, one for each `connect.protocol`, and writes `group.jsonl`,
`configs.jsonl`, `statuses.jsonl` and `offsets.jsonl`. Takes a minute. Requires the jars of `broker` and `connect`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kraal.broker.broker import Broker, free_port
from scripts.harness.processes import wait_until
from scripts.harness.workers import Worker, distributed

WORKER_PROPERTIES = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "2000",
    "offset.flush.interval.ms": "500",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
}
POLL_INTERVAL_S = 0.02
READ_TIMEOUT_S = 3.0
START_TIMEOUT_S = 180.0

Row = dict[str, str | int | None]


class GroupRecorder:
    """Records the metadata and assignments of the members of a group, without duplicates and in order."""

    def __init__(self, bootstrap: str, group: str, protocol: str) -> None:
        """Create a recorder; `protocol` is the `connect.protocol` of the workers."""
        self.rows: list[Row] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
        self._group, self._protocol = group, protocol

    @contextmanager
    def record(self) -> Iterator[None]:
        """Poll the group until the end of the context."""
        stopped = threading.Event()

        def poll() -> None:
            while not stopped.wait(POLL_INTERVAL_S):
                with suppress(KafkaException):  # the coordinator is not yet available
                    self._poll_group()

        thread = threading.Thread(target=poll)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def _poll_group(self) -> None:
        for group in self._admin.list_groups(self._group, timeout=10):
            for member in group.members:
                row: Row = {
                    "connect.protocol": self._protocol,
                    "protocol": group.protocol,
                    "member": member.id,
                    "metadata": bytes(member.metadata or b"").hex(),
                    "assignment": bytes(member.assignment or b"").hex(),
                }
                if str(group.state) == "Stable" and row not in self.rows:
                    self.rows.append(row)


def dump(bootstrap: str, topic: str) -> list[Row]:
    """Return all records of a topic, with keys and values as text."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "scripts", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    rows: list[Row] = []
    while (message := consumer.poll(READ_TIMEOUT_S)) is not None:
        value = message.value()
        rows.append(
            {
                "partition": message.partition(),
                "offset": message.offset(),
                "timestamp_ms": message.timestamp()[1],
                "key": (message.key() or b"").decode(),
                "value": None if value is None else value.decode(),
            }
        )
    consumer.close()
    return rows


class Scenario:
    """A sequence of requests that makes the workers write every kind of record."""

    def __init__(self, directory: Path, workers: Sequence[Worker]) -> None:
        """Write the source's file without sending requests."""
        self._directory = directory
        self._client = httpx2.Client(base_url=workers[0].rest.url, timeout=60.0, trust_env=False)
        self._source = directory / "in put.txt"
        self._source.write_text("one\ntwo\n", encoding="ascii")

    def play(self) -> None:
        """Send all requests, and wait for the states on which later requests depend."""
        source = {"connector.class": "FileStreamSource", "file": str(self._source), "topic": "golden"}
        sink = {"connector.class": "FileStreamSink", "topics": "golden", "tasks.max": "3"}
        self.ask("POST", "/connectors", {"name": "source", "config": source})
        self.wait_until_running("source", 1)
        for state in ("RUNNING", "PAUSED", "STOPPED"):
            config = sink | {"file": str(self._directory / state)}
            body = {"name": f"sink-{state}", "config": config, "initial_state": state}
            self.ask("POST", "/connectors", body)
        self.wait_until_running("sink-RUNNING", 3)
        for verb in ("pause", "resume", "stop", "resume"):
            self.ask("PUT", f"/connectors/sink-RUNNING/{verb}")
        self.wait_until_running("sink-RUNNING", 3)
        for query in ("includeTasks=true&onlyFailed=false", "includeTasks=false&onlyFailed=true"):
            self.ask("POST", f"/connectors/sink-RUNNING/restart?{query}")
        self.ask("PATCH", "/connectors/sink-RUNNING/config", {"tasks.max": "2"})
        self.ask("PUT", "/admin/loggers/org.apache.kafka.connect.file?scope=cluster", {"level": "DEBUG"})
        self.wait_until_running("sink-RUNNING", 2)
        time.sleep(1.5)  # offsets are flushed
        self.ask("PUT", "/connectors/source/stop")
        self.wait_for_states("source", lambda states: states == ["STOPPED"])
        self.ask("DELETE", "/connectors/source/offsets")
        self.ask("PUT", "/connectors/source/topics/reset")
        self.ask("DELETE", "/connectors/sink-PAUSED")

    def ask(self, method: str, path: str, body: object = None) -> None:
        """Send a request to the first worker; retry it while a rebalance is in progress."""

        def is_accepted() -> bool:
            response = self._client.request(method, path, json=body)
            if response.status_code != httpx2.codes.CONFLICT:
                response.raise_for_status()
            return response.is_success

        wait_until(f"{method} {path} succeeded", is_accepted, timeout_s=START_TIMEOUT_S)

    def wait_until_running(self, name: str, tasks: int) -> None:
        """Wait until a connector and all of its tasks run."""
        self.wait_for_states(name, lambda states: states == ["RUNNING"] * (tasks + 1))

    def wait_for_states(self, name: str, done: Callable[[list[str]], bool]) -> None:
        """Wait until `done` returns True for the states of a connector and its tasks."""

        def poll() -> bool:
            response = self._client.get(f"/connectors/{name}/status")
            if not response.is_success:
                return False
            body = response.json()
            return done([status["state"] for status in (body["connector"], *body["tasks"])])

        wait_until(f"{name} and its tasks were in the expected states", poll, timeout_s=START_TIMEOUT_S)


def capture(bootstrap: str, directory: Path, protocol: str) -> dict[str, list[Row]]:
    """Run the scenario with workers of one `connect.protocol`; return the rows by file."""
    group = f"golden-{protocol}"
    workers: list[Worker] = []

    def start() -> None:
        worker_directory = directory / f"{group}-{len(workers)}"
        worker_directory.mkdir(parents=True)
        extra = WORKER_PROPERTIES | {"connect.protocol": protocol}
        workers.append(distributed("java", bootstrap, worker_directory, group=group, extra=extra))
        wait_until(
            "the worker was healthy",
            workers[-1].rest.is_healthy,
            timeout_s=START_TIMEOUT_S,
            program=workers[-1].process,
        )

    recorder = GroupRecorder(bootstrap, group, protocol)
    try:
        with recorder.record():
            start()
            Scenario(directory, workers).play()
            start()  # takes over a part of the work, with revocations if the protocol supports them
            time.sleep(3.0)
            workers.pop().stop()  # its work is reassigned, after a delay if the protocol has one
            time.sleep(4.0)
    finally:
        for worker in workers:
            worker.stop()
    topics = {"configs": "config", "statuses": "status", "offsets": "offset"}
    rows = {name: dump(bootstrap, f"{group}-{topic}") for name, topic in topics.items()}
    return {"group": recorder.rows, **rows}


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write one JSON object per line."""
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="ascii")


def main(target: Path) -> None:
    """Capture every protocol. Write the topics only for `sessioned`, because they do not depend on the protocol."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        directory = Path(name)
        broker = Broker(directory / "kafka", free_port())
        broker.start()
        try:
            rows_by_protocol = {
                protocol: capture(broker.bootstrap, directory / protocol, protocol)
                for protocol in ("sessioned", "compatible", "eager")
            }
        finally:
            broker.stop()
    write(target / "group.jsonl", [row for rows in rows_by_protocol.values() for row in rows["group"]])
    for file in ("configs", "statuses", "offsets"):
        write(target / f"{file}.jsonl", rows_by_protocol["sessioned"][file])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
