"""Tests that Java and Kraal sources produce the same records for the same lines and transform chains."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from kraal.broker.broker import Broker
from kraal.testing.process import Answer, WorkerProcess
from tests.differential.causes import extract_cause, remove_details
from tests.differential.chains import CHAINS, WORDS, ChainCase

pytestmark = pytest.mark.ci

POLL_INTERVAL_S: Final = 0.1
READ_TIMEOUT_S: Final = 30.0
STALL_TIMEOUT_S: Final = 60.0
"""Maximum time without another completed chain."""
CREATED: Final = 201
REJECTED_BY_KRAAL: Final = frozenset({"an unknown predicate"})
"""Chains with which Java's task fails, and which Kraal's validation rejects (docs/compat.md)."""

Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Key, value and headers of a record, without the label of the side."""


@dataclass(frozen=True)
class Output:
    """The output of a worker for a chain."""

    status: int
    message: str
    """The error message, if the connector was rejected."""
    states: Sequence[str]
    is_stuck: bool
    """Whether the task neither failed nor read its file to the end."""
    trace: str
    records: Mapping[str, Sequence[Content]]
    """Records by topic, in order."""


class Side:
    """One worker with a connector for each chain."""

    def __init__(
        self, worker: WorkerProcess, bootstrap: str, label: str, run: str, files: Mapping[str, Path]
    ) -> None:
        """`label` distinguishes the names of connectors and topics on the two sides."""
        self._worker = worker
        self._bootstrap = bootstrap
        self._label = f"{run}-{label}"
        self._files = files

    def run_chains(self, chains: Sequence[ChainCase]) -> dict[str, Output]:
        """Run all chains; return their outputs by name."""
        names = {chain.name: f"{self._label}-{number:03}" for number, chain in enumerate(chains)}
        responses = {
            chain.name: self._worker.post(
                "/connectors", {"name": names[chain.name], "config": self._config(chain, names[chain.name])}
            )
            for chain in chains
        }
        pending = [chain for chain in chains if responses[chain.name].status == CREATED]
        last_progress = time.monotonic()
        while pending and time.monotonic() - last_progress < STALL_TIMEOUT_S:
            completed = [chain for chain in pending if self._is_complete(chain, names[chain.name])]
            last_progress = time.monotonic() if completed else last_progress
            pending = [chain for chain in pending if chain not in completed]
            time.sleep(POLL_INTERVAL_S)
        records = self._records()
        return {
            chain.name: self._make_output(
                names[chain.name], responses[chain.name], records, is_stuck=chain in pending
            )
            for chain in chains
        }

    def _make_output(
        self, name: str, response: Answer, records: Mapping[str, Sequence[Content]], *, is_stuck: bool
    ) -> Output:
        is_rejected = response.status != CREATED
        return Output(
            status=response.status,
            message=self._remove_label(str(response.body["message"])) if is_rejected else "",
            states=() if is_rejected else tuple(self._worker.states(name)),
            is_stuck=is_stuck,
            trace="" if is_rejected else "\n".join(self._worker.traces(name)),
            records={
                topic: contents
                for topic, contents in records.items()
                if topic.startswith(self._remove_label(name))
            },
        )

    def _config(self, chain: ChainCase, name: str) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(self._files["\n".join(chain.lines)]),
            "topic": name,
            "errors.log.enable": "false",
            **chain.settings,
        }

    def _is_complete(self, chain: ChainCase, name: str) -> bool:
        """Return whether the task has failed, or has written its whole file to Kafka."""
        states = self._worker.states(name)
        if "FAILED" in states[1:]:
            return True
        if chain.drops_all:  # the connector was created before connectors that have completed
            return states == ["RUNNING", "RUNNING"]
        text = self._files["\n".join(chain.lines)].read_text("utf-8")
        end_positions = {
            len(text.encode(code)) // width for code, width in (("utf-8", 1), ("utf-16-le", 2))
        }  # positions in bytes and in UTF-16 units
        offsets = self._worker.get(f"/connectors/{name}/offsets").body["offsets"]
        return [entry["offset"]["position"] in end_positions for entry in offsets] == [True]

    def _records(self) -> dict[str, list[Content]]:
        """Read all topics of this side to the end."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": self._label, "enable.auto.commit": False}
        )
        try:
            topics = consumer.list_topics(timeout=READ_TIMEOUT_S).topics
            topic_partitions = [
                TopicPartition(name, number, OFFSET_BEGINNING)
                for name, topic in topics.items()
                if name.startswith(self._label)
                for number in topic.partitions
            ]
            end_offsets = {
                partition.topic: consumer.get_watermark_offsets(partition, READ_TIMEOUT_S)[1]
                for partition in topic_partitions
            }
            assert len(end_offsets) == len(topic_partitions), "topics must have one partition each"
            consumer.assign(topic_partitions)
            records_by_topic: dict[str, list[Content]] = {
                self._remove_label(topic): [] for topic in end_offsets
            }
            deadline = time.monotonic() + READ_TIMEOUT_S
            while sum(map(len, records_by_topic.values())) < sum(end_offsets.values()):
                assert time.monotonic() < deadline, "timeout while reading records"
                message: Any = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    headers = tuple(
                        (name, self._remove_label_bytes(value)) for name, value in message.headers() or ()
                    )
                    key, data = message.key(), message.value()
                    content = (self._remove_label_bytes(key), self._remove_label_bytes(data), headers)
                    records_by_topic[self._remove_label(message.topic())].append(content)
        finally:
            consumer.close()
        return records_by_topic

    def _remove_label(self, name: str) -> str:
        return name.replace(self._label, "side")

    def _remove_label_bytes(self, data: bytes | None) -> bytes | None:
        """Replace the label of the side in bytes."""
        return None if data is None else data.replace(self._label.encode(), b"side")


@pytest.fixture(scope="module")
def outputs(
    pair: tuple[WorkerProcess, WorkerProcess], kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Output], dict[str, Output]]:
    """Run all chains on both workers; return the outputs of Java and of Kraal."""
    directory, run = tmp_path_factory.mktemp("chains"), f"c{uuid.uuid4().hex[:6]}"
    files: dict[str, Path] = {}
    for chain in CHAINS:
        text = "\n".join(chain.lines)
        if text not in files:
            files[text] = directory / f"lines-{len(files)}"
            files[text].write_text(text + "\n", "utf-8")
    java, kraal = (
        Side(worker, kafka.bootstrap, label, run, files).run_chains(CHAINS)
        for worker, label in zip(pair, "jk", strict=True)
    )
    return java, kraal


@pytest.mark.parametrize(
    "chain", [pytest.param(chain, id=chain.name) for chain in CHAINS if chain.name not in REJECTED_BY_KRAAL]
)
def test_java_and_kraal_sources_produce_equal_records(
    outputs: tuple[dict[str, Output], dict[str, Output]], chain: ChainCase
) -> None:
    java, kraal = (side[chain.name] for side in outputs)
    assert (kraal.status, remove_details(kraal.message)) == (java.status, remove_details(java.message))
    assert kraal.states == java.states
    assert not java.is_stuck
    assert not kraal.is_stuck
    assert kraal.records == java.records
    assert bool(extract_cause(java.trace)) == ("FAILED" in java.states)
    assert extract_cause(java.trace) in kraal.trace


@pytest.mark.parametrize("name", sorted(REJECTED_BY_KRAAL))
def test_kraal_validation_rejects_chains_that_fail_in_java_tasks(
    outputs: tuple[dict[str, Output], dict[str, Output]], name: str
) -> None:
    java, kraal = (side[name] for side in outputs)
    assert (java.status, java.states[1:]) == (CREATED, ("FAILED",))
    assert kraal.status == 400
    assert "predicate" in kraal.message


def test_chains_are_diverse_and_some_fail(
    outputs: tuple[dict[str, Output], dict[str, Output]],
) -> None:
    java, _ = outputs
    assert len(CHAINS) >= 60
    assert sum("FAILED" in result.states for result in java.values()) >= 5
    assert sum(result.status != CREATED for result in java.values()) >= 3
    assert (
        sum(len(records) == len(WORDS) for result in java.values() for records in result.records.values())
        >= 30
    )
