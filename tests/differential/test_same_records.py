"""Real Java Connect's worker and Kraal's make the same records of the same lines, through chains of transforms."""

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
from tests.differential.causes import cause_of, without_details
from tests.differential.chains import CHAINS, WORDS, Chained

pytestmark = pytest.mark.ci

LOOK_S: Final = 0.1
READ_S: Final = 30.0
STUCK_S: Final = 60.0
"""So long nothing more may be through."""
CREATED: Final = 201
REFUSED: Final = frozenset({"a predicate that is not there"})
"""Chains that Java's task fails with, and Kraal's validation (docs/compat.md)."""

Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Key, value and headers of a record; what names the side is replaced."""


@dataclass(frozen=True)
class Made:
    """What a worker made of a chain."""

    status: int
    message: str
    """Why it was refused, if it was."""
    states: Sequence[str]
    stuck: bool
    """Neither had it failed, nor was its file read to the end."""
    trace: str
    records: Mapping[str, Sequence[Content]]
    """By topic, in their order."""


class Side:
    """One worker, and a connector for each chain."""

    def __init__(
        self, worker: WorkerProcess, bootstrap: str, label: str, run: str, files: Mapping[str, Path]
    ) -> None:
        """`label`: what names of connectors and topics differ by from the other side's."""
        self._worker = worker
        self._bootstrap = bootstrap
        self._label = f"{run}-{label}"
        self._files = files

    def make(self, chains: Sequence[Chained]) -> dict[str, Made]:
        """Run all chains; return what came of each, by its name."""
        names = {chain.name: f"{self._label}-{number:03}" for number, chain in enumerate(chains)}
        answers = {
            chain.name: self._worker.post(
                "/connectors", {"name": names[chain.name], "config": self._config(chain, names[chain.name])}
            )
            for chain in chains
        }
        pending = [chain for chain in chains if answers[chain.name].status == CREATED]
        moved = time.monotonic()
        while pending and time.monotonic() - moved < STUCK_S:
            through = [chain for chain in pending if self._is_through(chain, names[chain.name])]
            moved = time.monotonic() if through else moved
            pending = [chain for chain in pending if chain not in through]
            time.sleep(LOOK_S)
        records = self._records()
        return {
            chain.name: self._made(names[chain.name], answers[chain.name], records, stuck=chain in pending)
            for chain in chains
        }

    def _made(
        self, name: str, answer: Answer, records: Mapping[str, Sequence[Content]], *, stuck: bool
    ) -> Made:
        refused = answer.status != CREATED
        return Made(
            status=answer.status,
            message=self._shown(str(answer.body["message"])) if refused else "",
            states=() if refused else tuple(self._worker.states(name)),
            stuck=stuck,
            trace="" if refused else "\n".join(self._worker.traces(name)),
            records={topic: made for topic, made in records.items() if topic.startswith(self._shown(name))},
        )

    def _config(self, chain: Chained, name: str) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(self._files["\n".join(chain.lines)]),
            "topic": name,
            "errors.log.enable": "false",
            **chain.settings,
        }

    def _is_through(self, chain: Chained, name: str) -> bool:
        """Whether it has failed, or its whole file was read and is in Kafka."""
        states = self._worker.states(name)
        if "FAILED" in states[1:]:
            return True
        if chain.drops_all:  # it was created before others that are through
            return states == ["RUNNING", "RUNNING"]
        text = self._files["\n".join(chain.lines)].read_text("utf-8")
        ends = {
            len(text.encode(code)) // width for code, width in (("utf-8", 1), ("utf-16-le", 2))
        }  # Java's, ours
        offsets = self._worker.get(f"/connectors/{name}/offsets").body["offsets"]
        return [each["offset"]["position"] in ends for each in offsets] == [True]

    def _records(self) -> dict[str, list[Content]]:
        """Read all topics of this side to their ends."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": self._label, "enable.auto.commit": False}
        )
        try:
            topics = consumer.list_topics(timeout=READ_S).topics
            places = [
                TopicPartition(name, number, OFFSET_BEGINNING)
                for name, topic in topics.items()
                if name.startswith(self._label)
                for number in topic.partitions
            ]
            ends = {place.topic: consumer.get_watermark_offsets(place, READ_S)[1] for place in places}
            assert len(ends) == len(places), "topics have one partition each"
            consumer.assign(places)
            found: dict[str, list[Content]] = {self._shown(topic): [] for topic in ends}
            deadline = time.monotonic() + READ_S
            while sum(map(len, found.values())) < sum(ends.values()):
                assert time.monotonic() < deadline, "records do not come"
                message: Any = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    headers = tuple((name, self._same(value)) for name, value in message.headers() or ())
                    content = (self._same(message.key()), self._same(message.value()), headers)
                    found[self._shown(message.topic())].append(content)
        finally:
            consumer.close()
        return found

    def _shown(self, name: str) -> str:
        return name.replace(self._label, "side")

    def _same(self, data: bytes | None) -> bytes | None:
        """Take out of some bytes what names the side."""
        return None if data is None else data.replace(self._label.encode(), b"side")


@pytest.fixture(scope="module")
def made(
    pair: tuple[WorkerProcess, WorkerProcess], kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Made], dict[str, Made]]:
    """What Java and Kraal made of each chain."""
    directory, run = tmp_path_factory.mktemp("chains"), f"c{uuid.uuid4().hex[:6]}"
    files: dict[str, Path] = {}
    for chain in CHAINS:
        text = "\n".join(chain.lines)
        if text not in files:
            files[text] = directory / f"lines-{len(files)}"
            files[text].write_text(text + "\n", "utf-8")
    java, kraal = (
        Side(worker, kafka.bootstrap, label, run, files).make(CHAINS)
        for worker, label in zip(pair, "jk", strict=True)
    )
    return java, kraal


@pytest.mark.parametrize(
    "chain", [pytest.param(each, id=each.name) for each in CHAINS if each.name not in REFUSED]
)
def test_java_and_kraal_make_the_same_records(
    made: tuple[dict[str, Made], dict[str, Made]], chain: Chained
) -> None:
    java, kraal = (side[chain.name] for side in made)
    assert (kraal.status, without_details(kraal.message)) == (java.status, without_details(java.message))
    assert kraal.states == java.states
    assert not java.stuck
    assert not kraal.stuck
    assert kraal.records == java.records
    assert bool(cause_of(java.trace)) == ("FAILED" in java.states)
    assert cause_of(java.trace) in kraal.trace


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_kraal_refuses_at_validation_what_fails_javas_task(
    made: tuple[dict[str, Made], dict[str, Made]], name: str
) -> None:
    java, kraal = (side[name] for side in made)
    assert (java.status, java.states[1:]) == (CREATED, ("FAILED",))
    assert kraal.status == 400
    assert "predicate" in kraal.message


def test_enough_chains_are_different_and_some_of_them_fail(
    made: tuple[dict[str, Made], dict[str, Made]],
) -> None:
    java, _ = made
    assert len(CHAINS) >= 60
    assert sum("FAILED" in each.states for each in java.values()) >= 5
    assert sum(each.status != CREATED for each in java.values()) >= 3
    assert (
        sum(len(records) == len(WORDS) for each in java.values() for records in each.records.values()) >= 30
    )
