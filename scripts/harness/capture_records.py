"""Captures REST responses, internal topics and offset files of single Java workers for `tests/golden`.

    python -m scripts.harness.capture_records

Writes `records/VERSION` with two distributed workers, one without and one with exactly-once support. REST responses and
offsets (in `offsets/VERSION`) are captured only from the worker without exactly-once support. Also writes
`offsets/VERSION/standalone-*.bin` with a standalone worker. Takes two minutes. Requires the jars of `broker` and
`connect`.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from kraal.broker.broker import Broker, free_port
from scripts.harness.capture_config_golden import GOLDEN
from scripts.harness.capture_golden import START_TIMEOUT_S, Row, dump, write
from scripts.harness.java_connect import CURRENT
from scripts.harness.processes import wait_until
from scripts.harness.workers import Worker, distributed, java_standalone

FILES = Path("/tmp/connect-golden")  # noqa: S108 - a fixed path, which is part of the captured data
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "FileStreamSink"
WORKER_PROPERTIES = {"offset.flush.interval.ms": "1000", "offset.storage.partitions": "5"}
SETTLE_S = 2.0
"""Time after which the effects of a request that changes no states, such as a restart, are complete."""
TEXT_WITH_ESCAPES = 'a"b\\/ \u00e9\x01\x1f<tab>\t\b\f\r\n\U0001f600'


class RecordingClient:
    """A REST client that records its requests and the worker's responses as text."""

    def __init__(self, worker: Worker, topic: str) -> None:
        """Create the client without sending a request."""
        self.lines: list[str] = []
        self._client = httpx2.Client(base_url=worker.rest.url, timeout=60.0, trust_env=False)
        self.topic = topic

    def ask(self, method: str, path: str, body: object = None) -> httpx2.Response:
        """Send a request, and retry it while a rebalance is in progress; record and return the response."""

        def send() -> httpx2.Response | None:
            response = self._client.request(method, quote(path, safe="/?&=+"), json=body)
            return None if "rebalance" in response.text else response

        response = wait_for(f"{method} {path} succeeded", send)
        self.lines.append(f"{method} {path} ({response.status_code}, {response.text!r})")
        return response

    def create(
        self, name: str, connector_class: str, file: str, *, state: str | None = None, **settings: str
    ) -> None:
        """Create a file connector with an initial state, and wait for this state (default: RUNNING)."""
        config = {"connector.class": connector_class, "tasks.max": "1", "file": str(FILES / file)}
        config["topics" if connector_class == SINK else "topic"] = self.topic
        body = {"name": name, "config": config | settings}
        self.ask("POST", "/connectors", body | ({"initial_state": state} if state else {}))
        tasks = 0 if state == "STOPPED" else int(settings.get("tasks.max", "1"))
        self.wait_for_state(name, state or "RUNNING", tasks=0 if state else tasks)

    def wait_for_state(self, name: str, state: str, *, tasks: int) -> None:
        """Wait until a connector is in `state` and has `tasks` tasks, each in `state` or FAILED; record the status."""
        path = f"/connectors/{quote(name)}/status"

        def is_reached() -> bool:
            body: Any = self._client.get(path).json()
            states = [task["state"] for task in body.get("tasks", ())]
            reached = body.get("connector", {}).get("state") == state and len(states) >= tasks
            return reached and set(states) <= {state, "FAILED"}

        wait_until(f"{name} was {state}", is_reached, timeout_s=START_TIMEOUT_S)
        self.ask("GET", f"/connectors/{name}/status")

    def wait_for_position(self, name: str, position: int | None) -> None:
        """Wait until a file source has this stored offset, or, if `position` is None, no stored offset."""
        path = f"/connectors/{quote(name)}/offsets"

        def is_stored() -> bool:
            offsets: list[Any] = self._client.get(path).json().get("offsets", [])
            return [entry["offset"]["position"] for entry in offsets] == (
                [] if position is None else [position]
            )

        wait_until(f"{name} was at {position}", is_stored, timeout_s=START_TIMEOUT_S)


def wait_for(what: str, read: Callable[[], httpx2.Response | None]) -> httpx2.Response:
    """Wait until `read` returns a response; return this response."""
    responses: list[httpx2.Response] = []

    def has_response() -> bool:
        responses.extend(filter(None, [read()]))
        return bool(responses)

    wait_until(what, has_response, timeout_s=START_TIMEOUT_S)
    return responses[0]


def play(client: RecordingClient) -> None:
    """Send the requests that make the worker write every kind of record."""
    client.create("my-source", SOURCE, "in.txt")
    client.create("my-sink-2", SINK, "out.txt", **{"tasks.max": "2"})
    client.create("early", SOURCE, "none", state="STOPPED")
    client.create("idle", SOURCE, "none", state="PAUSED")
    client.wait_for_position("my-source", 14)
    for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        client.ask("PUT", f"/connectors/my-source/{verb}")
        client.wait_for_state("my-source", state, tasks=1)
    for query in ("", "?includeTasks=true", "?onlyFailed=true"):
        client.ask("POST", f"/connectors/my-source/restart{query}")
        time.sleep(SETTLE_S)
    config = {"connector.class": SOURCE, "file": str(FILES / "in.txt"), "topic": client.topic, "other": None}
    client.ask("PUT", "/connectors/my-source/config", config)
    client.ask("PATCH", "/connectors/my-source/config", {"other": "x"})
    time.sleep(SETTLE_S)
    with (FILES / "in.txt").open("a") as file:
        file.write("\n")
    client.wait_for_position("my-source", 15)
    client.ask("PUT", "/admin/loggers/org.apache.kafka.connect.file?scope=cluster", {"level": "debug"})
    client.create("bad", SOURCE, "")
    client.ask("PUT", "/connectors/my-sink-2/stop")
    client.wait_for_state("my-sink-2", "STOPPED", tasks=0)
    time.sleep(SETTLE_S)
    client.ask("GET", "/connectors/my-source")
    client.ask("GET", "/connectors?expand=info&expand=status")
    client.ask("PUT", "/connectors/my-source/topics/reset")
    client.ask("GET", "/connectors/my-source/offsets")
    client.ask("DELETE", "/connectors/my-source")
    time.sleep(SETTLE_S)


def ask_for_errors(client: RecordingClient) -> None:
    """Send requests that write no records, such as requests for nonexistent connectors and with mismatched names."""
    for path in ("", "/status", "/tasks", "/tasks/0/status", "/config", "/topics"):
        client.ask("GET", f"/connectors/nope{path}")
    for path in ("my-sink-2", "bad"):
        client.ask("GET", f"/connectors/{path}/tasks")
    for verb in ("pause", "stop", "resume"):
        client.ask("PUT", f"/connectors/nope/{verb}")
    client.ask("DELETE", "/connectors/nope")
    for path in (
        "nope/restart",
        "nope/tasks/0/restart",
        "bad/tasks/7/restart",
        "nope/restart?includeTasks=true",
    ):
        client.ask("POST", f"/connectors/{path}")
    config = {"connector.class": SOURCE, "file": str(FILES / "none"), "topic": "lines"}
    client.ask("POST", "/connectors", {"name": "bad", "config": config})
    client.ask("POST", "/connectors", {"name": "bad2", "config": config | {"name": "x"}})
    client.ask("PUT", "/connectors/bad/config", config | {"name": "x"})
    client.ask("PATCH", "/connectors/nope/config", {"a": "b"})


def play_edge_cases(client: RecordingClient) -> None:
    """Create a connector with a config value that requires escapes, and restart and delete a failing sink."""
    client.create("odd \u00e9-1", SOURCE, "in2.txt", weird=TEXT_WITH_ESCAPES)
    client.wait_for_position("odd \u00e9-1", 4)
    client.create("bad-sink", SINK, "nodir/x")
    client.ask("POST", "/connectors/bad-sink/restart?includeTasks=true&onlyFailed=true")
    time.sleep(SETTLE_S)
    client.ask("DELETE", "/connectors/bad-sink")
    time.sleep(SETTLE_S)


def sort_by_time(rows: list[Row]) -> list[Row]:
    """Return the records of all partitions in the order of their timestamps."""
    return sorted(rows, key=lambda row: (row["timestamp_ms"], row["partition"], row["offset"]))


def make_files() -> None:
    """Write the files of the sources."""
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    (FILES / "in.txt").write_text("one\ntwo\nthree\n", encoding="ascii")
    (FILES / "in2.txt").write_text("1\n2\n", encoding="ascii")


def capture_distributed(bootstrap: str, directory: Path, kind: str, extra: dict[str, str]) -> None:
    """Capture a distributed worker. Without exactly-once support, also capture REST responses, errors and offsets."""
    make_files()
    group, records = f"records-{kind}", GOLDEN / "records" / CURRENT
    (directory / kind).mkdir()
    worker = distributed("java", bootstrap, directory / kind, group=group, extra=WORKER_PROPERTIES | extra)
    is_plain = kind == "distributed"
    try:
        wait_until(
            "the worker was healthy",
            worker.rest.is_healthy,
            timeout_s=START_TIMEOUT_S,
            program=worker.process,
        )
        client = RecordingClient(worker, "lines" if is_plain else "linese")
        play(client)
        if is_plain:
            ask_for_errors(client)
            play_edge_cases(client)
            text = "".join(f"{line}\n" for line in client.lines)
            (records / "distributed-rest.txt").write_text(text, encoding="utf-8")
        # Read before the worker stops, because it then writes statuses of all connectors.
        for topic, name in (("config", "configs"), ("status", "status")):
            write(records / f"{kind}-{name}.jsonl", sort_by_time(dump(bootstrap, f"{group}-{topic}")))
        if is_plain:
            offsets = sort_by_time(dump(bootstrap, f"{group}-offset"))
            write(GOLDEN / "offsets" / CURRENT / "distributed-offsets.jsonl", offsets)
    finally:
        worker.stop()


def capture_standalone(bootstrap: str, directory: Path) -> None:
    """Capture the offset file of a standalone worker: with one source, with two, and after a reset of the first."""
    make_files()
    directory = directory / "standalone"
    directory.mkdir()
    worker = java_standalone(bootstrap, directory, {"offset.flush.interval.ms": "1000"})
    save = partial(shutil.copy, directory / "offsets")
    target = GOLDEN / "offsets" / CURRENT
    try:
        worker.wait_until_up()
        client = RecordingClient(worker, "standalone")
        client.create("my-source", SOURCE, "in.txt")
        client.wait_for_position("my-source", 14)
        save(target / "standalone-one.bin")
        client.create("second \u00e9", SOURCE, "in2.txt")
        client.wait_for_position("second \u00e9", 4)
        save(target / "standalone-two.bin")
        client.ask("PUT", "/connectors/my-source/stop")
        client.wait_for_state("my-source", "STOPPED", tasks=0)
        client.ask("DELETE", "/connectors/my-source/offsets")
        client.wait_for_position("my-source", None)
        save(target / "standalone-reset.bin")
    finally:
        worker.stop()


def main() -> None:
    """Capture with all workers, one after the other."""
    for family in ("records", "offsets"):
        (GOLDEN / family / CURRENT).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        directory = Path(name)
        broker = Broker(directory / "kafka", free_port())
        broker.start()
        try:
            capture_distributed(broker.bootstrap, directory, "distributed", {})
            support = {"exactly.once.source.support": "enabled"}
            capture_distributed(broker.bootstrap, directory, "exactly-once", support)
            capture_standalone(broker.bootstrap, directory)
        finally:
            broker.stop()
            shutil.rmtree(FILES, ignore_errors=True)


if __name__ == "__main__":
    main()
