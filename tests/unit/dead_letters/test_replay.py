"""Tests for the order of writes and commits in replays."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typing_extensions import override

from kraal.dead_letters import replay as module
from kraal.dead_letters.api import KafkaUnavailable
from kraal.dead_letters.records import DeadLetter, Target
from kraal.dead_letters.replay import replay
from kraal.dead_letters.selection import DeadLetterQueue, uncommitted_offsets
from kraal.dead_letters.targets import CannotReplay, Targets
from tests.fakes.kafka.dead_letters import MemoryKafka, letter

QUEUE = DeadLetterQueue("dead", "orders-sink")


class Kafka(MemoryKafka):
    """An in-memory Kafka that records writes and commits in order."""

    def __init__(self, *letters: DeadLetter) -> None:
        super().__init__()
        self.letters["dead"] = list(letters)
        self.operations: list[str] = []

    @override
    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        assert (group, topic) == ("kraal-dlq-replay/dead/orders-sink", "dead")
        super().commit(group, topic, offsets)
        self.operations.append(f"commit {offsets}")

    @override
    def write(self, letters: Sequence[tuple[DeadLetter, Target]]) -> None:
        super().write(letters)
        self.operations.append("write " + " ".join(str(dead_letter.offset) for dead_letter, _ in letters))

    def replay(self, limit: int | None = None, *, until_s: float = math.inf, dry_run: bool = False) -> int:
        spans = uncommitted_offsets(self.spans("dead"), self.committed_offsets(QUEUE.group, "dead"))
        is_writing = not dry_run
        batches = replay(
            self,
            QUEUE,
            spans,
            Targets(),
            limit=limit,
            until_s=until_s,
            write=is_writing,
            commit_progress=is_writing,
        )
        return sum(len(batch) for batch in batches)


def test_progress_is_committed_after_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_SIZE", 2)
    kafka = Kafka(*map(letter, range(5)))
    assert kafka.replay() == 5
    assert kafka.operations == [
        "write 0 1", "commit {0: 2}", "write 2 3", "commit {0: 4}", "write 4", "commit {0: 5}"
    ]  # fmt: skip
    assert kafka.replay() == 0


def test_batch_size_is_limited_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 100)
    kafka = Kafka(*(replace(letter(number), value=b"x" * 48) for number in range(5)))
    assert kafka.replay() == 5
    assert [operation for operation in kafka.operations if operation.startswith("write")] == [
        "write 0 1",
        "write 2 3",
        "write 4",
    ]


def test_limited_replay_resumes_at_committed_offset() -> None:
    kafka = Kafka(*map(letter, range(3)))
    assert [kafka.replay(2), kafka.replay(2), kafka.replay(2)] == [2, 1, 0]
    assert [dead_letter.offset for dead_letter, _ in kafka.written] == [0, 1, 2]


def test_letters_of_other_connectors_are_skipped_once() -> None:
    kafka = Kafka(letter(0), letter(1, connector="other"), letter(2, connector="other"))
    assert kafka.replay(10) == 1
    assert kafka.groups == {QUEUE.group: {0: 3}}


def test_failed_replay_commits_no_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_SIZE", 2)
    kafka = Kafka(*map(letter, range(3)))
    assert kafka.replay(2) == 2
    kafka.refuses = True
    with pytest.raises(KafkaUnavailable):
        kafka.replay()
    assert kafka.groups == {QUEUE.group: {0: 2}}


def test_letter_without_target_fails_before_its_batch_is_written() -> None:
    kafka = Kafka(letter(0), letter(1, {"topic": "gone"}))
    with pytest.raises(CannotReplay):
        kafka.replay()
    assert kafka.operations == []


def test_replay_writes_no_records_after_its_deadline() -> None:
    kafka = Kafka(*map(letter, range(3)))
    assert kafka.replay(until_s=time.monotonic() - 1) == 0
    assert kafka.operations == []


def test_expired_replay_commits_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((1.0, 2.0, 3.0))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    kafka = Kafka(letter(0), letter(1, connector="other"), letter(2))
    assert kafka.replay(until_s=2.0) == 1
    assert kafka.operations == ["write 0", "commit {0: 2}"], (
        "the progress ends at the last letter that was read"
    )


def test_dry_run_writes_no_records_and_commits_no_offsets() -> None:
    kafka = Kafka(*map(letter, range(3)))
    assert kafka.replay(dry_run=True) == 3
    assert (kafka.operations, kafka.groups) == ([], {})
