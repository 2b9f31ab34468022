"""Connectors on the shared cluster: a working pipeline, a failed sink and a stopped source."""

from __future__ import annotations

import json
import os
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from kraal.broker.records import read_topic, write_topic
from kraal.testing import ProcessCluster
from kraal.testing.process import TIMEOUT_S, WorkerProcess
from tests.fakes.spark.pipe import create_topic

SOURCE: Final = "orders-source"
SINK: Final = "orders-sink"
ORDERS, BILLING, ARCHIVE, PAYMENTS = "shop.orders", "shop.billing", "shop.archive", "shop.payments"
FAILING_SINK: Final = "billing-sink"
DEAD_LETTER_SINK: Final = "payments-sink"
STOPPED_SOURCE: Final = "archive-source"
CAUSE: Final = (
    f"org.apache.kafka.connect.errors.DataException: record {BILLING}-0@0 failed at VALUE_CONVERTER: Converting byte[] "
    "to Kafka Connect data failed due to serialization error: json.decoder.JSONDecodeError: Expecting value: line 1 "
    "column 1 (char 0)"
)
SECRET: Final = "pa55-of-the-billing-sink"  # noqa: S105 - a test value
JSON_CONVERTER: Final = "org.apache.kafka.connect.json.JsonConverter"
RUNNING: Final = ["RUNNING", "RUNNING"]
STATES: Final = {
    SOURCE: RUNNING,
    SINK: RUNNING,
    FAILING_SINK: ["RUNNING", "FAILED"],
    STOPPED_SOURCE: ["STOPPED"],
}
UPDATES_PICTURES: Final = bool(os.environ.get("KRAAL_UPDATE_SCREENSHOTS"))
"""Whether to update the screenshots of the documentation, which should contain neutral names."""
_KAFKA_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True)
class Scene:
    """The cluster with its connectors."""

    cluster: ProcessCluster
    bootstrap: str
    directory: Path

    @property
    def worker(self) -> WorkerProcess:
        """The first worker, whose pages most tests open. Tests must not kill this worker."""
        return self.cluster.workers[0]

    def page(self, *segments: str) -> str:
        """Return the URL of a page on the first worker's dashboard."""
        return page_url(self.worker.url, *segments)

    def get(self, path: str) -> Any:
        """Return the body of a GET request, which must succeed."""
        response = self.worker.ask("GET", path)
        assert response.status == 200, response
        return response.body

    def write_orders(self, *lines: str) -> None:
        """Append lines to the file of the source."""
        with (self.directory / "orders").open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def orders_in_kafka(self) -> list[str]:
        """Return the lines in the topic of the pipeline."""
        return [
            (record.value or b"").decode()
            for record in read_topic(self.bootstrap, ORDERS, timeout_s=_KAFKA_TIMEOUT_S)
        ]

    def orders_out(self) -> list[str]:
        """Return the lines that the sink has written."""
        path = self.directory / "orders.out"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def wait_until(self, description: str, is_done: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> None:
        """Wait for a condition over REST, in Kafka or in a file."""
        self.worker.wait_until(description, is_done, timeout_s=timeout_s)

    def settle(self) -> None:
        """Wait until the connectors have their expected states, and all rebalances are over."""
        for name, states in STATES.items():
            self.wait_for_states(name, *states)
        self.wait_until("all rebalances were over", self._is_balanced)

    def _is_balanced(self) -> bool:
        """Return whether exactly the existing connectors and tasks are assigned."""
        statuses = self.get("/connectors?expand=status")
        tasks = [
            f"{name}-{task['id']}" for name, entry in statuses.items() for task in entry["status"]["tasks"]
        ]
        assignments = self.get("/admin/assignments")
        assigned_connectors, assigned_tasks = (
            sorted(instance for worker in assignments["workers"] for instance in worker[kind])
            for kind in ("connectors", "tasks")
        )
        is_complete = assigned_connectors == sorted(statuses) and assigned_tasks == sorted(tasks)
        return is_complete and not assignments["waiting"]

    def wait_for_states(self, name: str, *states: str) -> None:
        """Wait until a connector and its tasks have these states."""
        self.worker.wait_for_states(name, states)


def count_transitions(scene: Scene, name: str, state: str) -> Counter[int | None]:
    """Return how often the connector (None) and each of its tasks entered a state."""
    history = scene.get(f"/connectors/{name}/history?limit=1000")["states"]
    return Counter(event["task"] for event in history if event["state"] == state)


def page_url(worker_url: str, *segments: str) -> str:
    """Return the URL of a page on a dashboard."""
    return f"{worker_url}/ui/{'/'.join(quote(segment, safe='') for segment in segments)}"


def make_scene(cluster: ProcessCluster, bootstrap: str, directory: Path) -> Scene:
    """Create the connectors on a cluster and wait until they have their expected states."""
    scene = Scene(cluster, bootstrap, directory)
    source = {"connector.class": "FileStreamSource", "topic": ORDERS, "file": str(directory / "orders")}
    sink = {"connector.class": "FileStreamSink", "topics": ORDERS, "file": str(directory / "orders.out")}
    failing_config = {
        "connector.class": "FileStreamSink",
        "topics": BILLING,
        "file": str(directory / "billing.out"),
        "value.converter": JSON_CONVERTER,
        "consumer.override.sasl.jaas.config": f'some.Module required password="{SECRET}";',
    }
    for topic in (ORDERS, BILLING):
        create_topic(bootstrap, topic)
    write_topic(bootstrap, BILLING, [b"not JSON"], timeout_s=_KAFKA_TIMEOUT_S)
    scene.write_orders("first order")
    cluster.create(SOURCE, source)
    cluster.create(SINK, sink)
    cluster.create(FAILING_SINK, failing_config)
    cluster.create(
        STOPPED_SOURCE, source | {"topic": ARCHIVE, "file": str(directory / "archive")}, state="STOPPED"
    )
    scene.settle()
    scene.wait_until("the first order was written", lambda: scene.orders_out() == ["first order"])
    return scene


def make_letters(scene: Scene) -> str:
    """Create a sink with a dead letter queue and two unreadable records. Return the name of the sink."""
    unique = "" if UPDATES_PICTURES else f"-{uuid.uuid4().hex[:4]}"
    name, topic, queue = DEAD_LETTER_SINK, f"{PAYMENTS}{unique}", f"{PAYMENTS}-letters{unique}"
    create_topic(scene.bootstrap, topic)
    create_topic(scene.bootstrap, queue)
    valid_record = json.dumps({"schema": None, "payload": "paid"}).encode()
    write_topic(scene.bootstrap, topic, [b"<b>not JSON</b>", valid_record, b"{"], timeout_s=_KAFKA_TIMEOUT_S)
    scene.cluster.create(
        name,
        {
            "connector.class": "FileStreamSink",
            "topics": topic,
            "file": str(scene.directory / topic),
            "value.converter": JSON_CONVERTER,
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": queue,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        },
    )
    scene.wait_for_states(name, *RUNNING)
    scene.wait_until(
        "the letters were in Kafka",
        lambda: len(read_topic(scene.bootstrap, queue, timeout_s=_KAFKA_TIMEOUT_S)) == 2,
    )
    return name
