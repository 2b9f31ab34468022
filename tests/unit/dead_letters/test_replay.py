"""A replay: what is written in which order, and what is remembered when."""

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
from kraal.dead_letters.selection import Box, uncommitted_offsets
from kraal.dead_letters.targets import CannotReplay, Targets
from tests.fakes.kafka.dead_letters import MemoryKafka, letter

BOX = Box("dead", "orders-sink")


class Kafka(MemoryKafka):
    """Notes writes and commits in one list, in their order."""

    def __init__(self, *letters: DeadLetter) -> None:
        super().__init__()
        self.letters["dead"] = list(letters)
        self.done: list[str] = []

    @override
    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        assert (group, topic) == ("kraal-dlq-replay/dead/orders-sink", "dead")
        super().commit(group, topic, offsets)
        self.done.append(f"commit {offsets}")

    @override
    def write(self, letters: Sequence[tuple[DeadLetter, Target]]) -> None:
        super().write(letters)
        self.done.append("write " + " ".join(str(each.offset) for each, _ in letters))

    def replay(self, limit: int | None = None, *, until_s: float = math.inf, only_look: bool = False) -> int:
        spans = uncommitted_offsets(self.spans("dead"), self.committed_offsets(BOX.group, "dead"))
        does = not only_look
        pieces = replay(self, BOX, spans, Targets(), limit=limit, until_s=until_s, write=does, remember=does)
        return sum(len(piece) for piece in pieces)


def test_each_piece_is_committed_after_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_SIZE", 2)
    kafka = Kafka(*map(letter, range(5)))
    assert kafka.replay() == 5
    assert kafka.done == [
        "write 0 1", "commit {0: 2}", "write 2 3", "commit {0: 4}", "write 4", "commit {0: 5}"
    ]  # fmt: skip
    assert kafka.replay() == 0


def test_a_piece_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES", 100)
    kafka = Kafka(*(replace(letter(number), value=b"x" * 48) for number in range(5)))
    assert kafka.replay() == 5
    assert [each for each in kafka.done if each.startswith("write")] == ["write 0 1", "write 2 3", "write 4"]


def test_a_limited_replay_resumes_where_it_ended() -> None:
    kafka = Kafka(*map(letter, range(3)))
    assert [kafka.replay(2), kafka.replay(2), kafka.replay(2)] == [2, 1, 0]
    assert [each.offset for each, _ in kafka.written] == [0, 1, 2]


def test_letters_of_other_connectors_are_skipped_once() -> None:
    kafka = Kafka(letter(0), letter(1, connector="other"), letter(2, connector="other"))
    assert kafka.replay(10) == 1
    assert kafka.groups == {BOX.group: {0: 3}}


def test_failed_replay_commits_no_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_SIZE", 2)
    kafka = Kafka(*map(letter, range(3)))
    assert kafka.replay(2) == 2
    kafka.refuses = True
    with pytest.raises(KafkaUnavailable):
        kafka.replay()
    assert kafka.groups == {BOX.group: {0: 2}}


def test_a_letter_without_a_target_stops_before_anything_of_its_piece_is_written() -> None:
    kafka = Kafka(letter(0), letter(1, {"topic": "gone"}))
    with pytest.raises(CannotReplay):
        kafka.replay()
    assert kafka.done == []


def test_replay_writes_no_records_after_its_deadline() -> None:
    kafka = Kafka(*map(letter, range(3)))
    assert kafka.replay(until_s=time.monotonic() - 1) == 0
    assert kafka.done == []


def test_expired_replay_commits_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter((1.0, 2.0, 3.0))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(now)))
    kafka = Kafka(letter(0), letter(1, connector="other"), letter(2))
    assert kafka.replay(until_s=2.0) == 1
    assert kafka.done == ["write 0", "commit {0: 2}"], "no longer than to where it has read"


def test_dry_run_writes_no_records_and_commits_no_offsets() -> None:
    kafka = Kafka(*map(letter, range(3)))
    assert kafka.replay(only_look=True) == 3
    assert (kafka.done, kafka.groups) == ([], {})
