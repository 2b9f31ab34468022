"""Tests for stream-only formats without Spark: the continuation of queries, and batches skipped after a restart."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kraal.connectors.spark import stream as module
from kraal.connectors.spark.source import SparkSourceConnector, SparkSourceTask
from kraal.connectors.spark.source_config import SPARK_SOURCE
from kraal.connectors.spark.stream import StreamReader
from kraal.connectors.spark.stream_checkpoint import (
    CheckpointLost,
    StreamPosition,
    check_checkpoint,
    copy_range,
    make_partition,
    read_last_batch,
    read_position,
    read_query_id,
)
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.streaming.polled_query import Batch, BatchNotWritten, Handover, UnexpectedBatch
from kraal.plugins.api import SourceBatch, TaskContext

TIMEOUT_S = 20.0


class Spark:
    """A fake of the Spark side of a query. Offers batches on a separate thread and records the written batches."""

    def __init__(
        self, checkpoint: Path, first: int, last_written: int, read_last_planned: Callable[[], int]
    ) -> None:
        self.handover = Handover(last_written, read_last_planned)
        self.id = "q"
        self.error: Exception | None = None
        self.written_batches: queue.SimpleQueue[int | str] = queue.SimpleQueue()
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": self.id}))
        self._checkpoint = checkpoint
        self._thread = threading.Thread(target=self._run, args=(first,))
        self._thread.start()

    def _run(self, number: int) -> None:
        with suppress(BatchNotWritten):
            while True:
                (self._checkpoint / "offsets" / str(number)).write_text("")
                frame: Any = f"rows of {number}"
                self.handover.offer(frame, number)
                self.written_batches.put(number)
                number += 1
        self.written_batches.put("aborted")

    @property
    def has_batch(self) -> bool:
        return self.handover.batch is not None

    def batch(self) -> Batch | None:
        if self.error is not None:
            raise self.error
        return self.handover.batch

    def wait_for_batch(self, timeout_s: float) -> Batch:
        batch = self.handover.wait_for_batch(timeout_s)
        assert batch is not None
        return batch

    def record_written(self, number: int) -> None:
        self.handover.record_written(number)

    def end(self) -> None:
        self.handover.cancel()
        self._thread.join(TIMEOUT_S)


class ReaderHarness:
    """A reader with fake queries. Each query replans the batches that its predecessor did not commit."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.queries: list[Spark] = []
        self.next_batch = 0

    def make_reader(self, offsets: dict[SourcePartition, Offset] | None = None) -> StreamReader:
        config = {"spark.format": "rate", "checkpoint.location": str(self.checkpoint), "topic": "t"}
        reader = StreamReader(SPARK_SOURCE.parse(config), {}, (0, 1), offsets or {})
        reader._layout = SimpleNamespace(  # type: ignore[assignment]  # the real layout requires Spark
            make_batch=lambda frame, offsets: SourceBatch(offsets=offsets, topic=frame)
        )
        return reader

    def query(
        self,
        _: object,
        *,
        checkpoint: str,
        interval_ms: int,
        last_written: int,
        read_last_planned: Callable[[], int],
    ) -> Spark:
        del interval_ms
        query = Spark(
            Path(checkpoint.removeprefix("file://")), self.next_batch, last_written, read_last_planned
        )
        self.queries.append(query)
        return query

    def take(self, reader: StreamReader) -> SourceBatch:
        """Poll until the reader has a batch; return the batch."""
        for _ in range(2000):
            if reader.may_have_more() and (batch := reader.discover(EMPTY_SESSION)) is not None:
                return batch
            threading.Event().wait(0.005)
        raise AssertionError("no batch arrived")


class _Session:
    """A fake session with empty streams."""

    conf = SimpleNamespace(get=lambda *_: "set", set=lambda *_: None, getAll={})

    def newSession(self) -> _Session:  # noqa: N802 - Spark's name
        return self

    @property
    def readStream(self) -> _Session:  # noqa: N802 - as above
        return self

    def format(self, _: str) -> _Session:
        return self

    def options(self, **_: str) -> _Session:
        return self

    def load(self) -> None: ...


EMPTY_SESSION: Any = _Session()


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ReaderHarness]:
    harness = ReaderHarness(tmp_path / "checkpoint")
    monkeypatch.setattr(module, "BatchQuery", harness.query)
    yield harness
    for query in harness.queries:
        query.end()


def make_offsets(harness: ReaderHarness, batch: int) -> dict[SourcePartition, Offset]:
    return {make_partition("rate", str(harness.checkpoint)): {"batch": batch, "query": "q"}}


def test_query_continues_only_after_batch_is_stored(harness: ReaderHarness) -> None:
    reader = harness.make_reader()
    batch = harness.take(reader)
    assert (batch.topic, batch.offsets) == ("rows of 0", make_offsets(harness, 0))
    retried_batch = reader.discover(EMPTY_SESSION)  # a retry of the job
    assert retried_batch == batch
    (query,) = harness.queries
    assert query.written_batches.empty()
    reader.advance()
    assert query.written_batches.get(timeout=TIMEOUT_S) == 0
    assert harness.take(reader).offsets == make_offsets(harness, 1)
    reader.close()
    assert query.written_batches.get(timeout=TIMEOUT_S) == "aborted"


def test_rest_before_offset_is_stored_does_not_repeat_the_batch(harness: ReaderHarness) -> None:
    reader = harness.make_reader()
    harness.take(reader)
    was_running = reader.runs_on
    reader.rest()
    assert (was_running, reader.runs_on) == (True, False)
    assert harness.queries[0].written_batches.get(timeout=TIMEOUT_S) == "aborted"
    reader.advance()  # the actor has stored the offset in the meantime and polls again
    assert harness.take(reader).offsets == make_offsets(harness, 1)  # the next query plans batch 0 again
    assert harness.queries[1].written_batches.get(timeout=TIMEOUT_S) == 0


def test_unstored_batch_is_repeated(harness: ReaderHarness) -> None:
    first_reader = harness.make_reader()
    harness.take(first_reader)
    first_reader.close()
    assert harness.take(harness.make_reader()).offsets == make_offsets(harness, 0)


def test_stored_batch_missing_in_checkpoint_is_skipped(harness: ReaderHarness) -> None:
    first_reader = harness.make_reader()
    harness.take(first_reader)
    first_reader.close()
    assert harness.take(harness.make_reader(make_offsets(harness, 0))).offsets == make_offsets(harness, 1)


def test_handover_rejects_unplanned_batches(harness: ReaderHarness) -> None:
    reader = harness.make_reader()
    harness.take(reader)
    (query,) = harness.queries
    forged_frame: Any = "forged rows"
    with pytest.raises(
        UnexpectedBatch, match="Batch 1 was offered, but the checkpoint's last planned batch is 0"
    ):
        query.handover.offer(forged_frame, 1)
    with pytest.raises(
        UnexpectedBatch, match="Batch 0 was offered while batch 0 of the streaming query is running"
    ):
        query.handover.offer(forged_frame, 0)
    assert query.handover.batch == Batch(0, "rows of 0")  # type: ignore[arg-type]  # no frame here
    assert harness.take(reader).topic == "rows of 0"


@pytest.mark.parametrize("number", [-1, 6, 8])
def test_handover_rejects_batch_number_not_in_checkpoint(number: int) -> None:
    handover = Handover(6, lambda: 7)
    forged_frame: Any = "forged rows"
    with pytest.raises(
        UnexpectedBatch, match=f"Batch {number} was offered, but the checkpoint's last planned batch is 7"
    ):
        handover.offer(forged_frame, number)
    assert handover.batch is None


def test_discover_raises_the_error_of_the_query(harness: ReaderHarness) -> None:
    reader = harness.make_reader()
    harness.take(reader)
    harness.queries[0].error = ValueError("no such stream")
    with pytest.raises(ValueError, match="no such stream"):
        reader.discover(EMPTY_SESSION)


def test_checkpoint_without_the_stored_batch_is_rejected(harness: ReaderHarness) -> None:
    with pytest.raises(CheckpointLost, match="does not contain batch 3 of the query q"):
        harness.make_reader(make_offsets(harness, 3)).discover(EMPTY_SESSION)
    assert harness.queries == []
    checkpoint = str(harness.checkpoint)
    (harness.checkpoint / "offsets").mkdir(parents=True)
    (harness.checkpoint / "metadata").write_text('{"id":"q"}')
    assert (read_query_id(checkpoint), read_last_batch(checkpoint)) == ("q", -1)
    (harness.checkpoint / "offsets" / "2").write_text("")
    (harness.checkpoint / "offsets" / "10.tmp").write_text("")
    with pytest.raises(CheckpointLost):
        check_checkpoint(checkpoint, StreamPosition(3, "q"))
    with pytest.raises(CheckpointLost):
        check_checkpoint(checkpoint, StreamPosition(2, "another"))
    check_checkpoint(checkpoint, StreamPosition(2, "q"))
    check_checkpoint(checkpoint, None)


def write_checkpoint(checkpoint: Path, *batches: int) -> None:
    """Write the checkpoint of a query `q` that has planned these batches."""
    (checkpoint / "offsets").mkdir(parents=True)
    for batch in batches:
        (checkpoint / "offsets" / str(batch)).write_text(f"after {batch}")
    (checkpoint / "metadata").write_text('{"id":"q"}')


def read_offsets(checkpoint: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (checkpoint / "offsets").iterdir()}


def test_copy_of_a_checkpoint_has_one_batch_that_is_not_done(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    write_checkpoint(checkpoint, 7, 8, 9)
    log = checkpoint / "sources" / "0"
    log.mkdir(parents=True)
    for name in ("9.compact", ".9.compact.crc", ".10.1f2e.tmp"):
        (log / name).write_text(name)
    start, end = (read_position(str(checkpoint), StreamPosition(batch, "q")) for batch in (7, 9))
    assert copy_range(str(checkpoint), tmp_path / "later", start, end) == 1
    assert copy_range(str(checkpoint), tmp_path / "all", None, end) == 0
    assert read_offsets(tmp_path / "later") == {"0": "after 7", "1": "after 9"}
    assert read_offsets(tmp_path / "all") == {"0": "after 9"}
    assert [path.name for path in (tmp_path / "all" / "sources" / "0").iterdir()] == ["9.compact"]
    ids = {read_query_id(str(tmp_path / name)) for name in ("checkpoint", "later", "all")}
    assert len(ids) == 3, "Spark stops a query if another one with its id starts"
    assert not (tmp_path / "all" / "commits").exists()


def test_position_must_be_in_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    write_checkpoint(checkpoint, 8, 9)
    with pytest.raises(CheckpointLost, match="no longer contains the position after batch 7"):
        read_position(str(checkpoint), StreamPosition(7, "q"))
    with pytest.raises(CheckpointLost, match="does not contain batch 10"):
        read_position(str(checkpoint), StreamPosition(10, "q"))


def test_range_is_read_by_a_query_with_a_copy_of_the_checkpoint(harness: ReaderHarness) -> None:
    reader = harness.make_reader()
    write_checkpoint(harness.checkpoint, 2, 3, 4)
    starts, ends = make_offsets(harness, 2), make_offsets(harness, 3)
    first = reader.read_range(EMPTY_SESSION, {}, starts)
    assert first is not None
    assert (first.topic, first.offsets) == ("rows of 0", starts)
    (harness.checkpoint / "offsets" / "2").unlink()  # as Spark does after 100 batches
    harness.next_batch = 1
    second = reader.read_range(EMPTY_SESSION, starts, ends)
    assert second is not None
    assert (second.topic, second.offsets) == ("rows of 1", ends)
    assert harness.queries[0].written_batches.get(timeout=TIMEOUT_S) == "aborted"
    planned = reader.read_range(EMPTY_SESSION, ends, None)
    assert planned is not None
    assert planned.offsets == make_offsets(harness, 4)
    assert reader.read_range(EMPTY_SESSION, planned.offsets, None) is None, "no later batch is planned"
    assert reader.read_range(EMPTY_SESSION, starts, starts) is None
    assert [query.written_batches.get(timeout=TIMEOUT_S) for query in harness.queries[1:]] == ["aborted"] * 2
    assert not reader.runs_on
    reader.close()


def test_stream_position_rejects_other_offsets() -> None:
    assert StreamPosition.of({"batch": 1, "query": "q"}) == StreamPosition(1, "q")
    with pytest.raises(ValueError, match="lacks batch or query"):
        StreamPosition.of({"position": 7})


def test_task_rest_stops_the_running_query(harness: ReaderHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = harness.make_reader()
    monkeypatch.setattr("kraal.connectors.spark.source._get_reader_class", lambda _: lambda *_: reader)
    task = SparkSourceTask()
    config = {"spark.format": "rate", "checkpoint.location": str(harness.checkpoint), "topic": "t"}
    view: Any = SimpleNamespace(scratch="", spark_is_local=True, bootstrap_servers="")
    task.start(config, {}, TaskContext(connector="c", task=0, worker=view, connector_config=config))
    running_states = [task.runs_on]
    harness.take(reader)
    running_states.append(task.runs_on)
    task.rest()
    assert [*running_states, task.runs_on] == [False, True, False]
    task.stop()


def test_stream_offsets_can_only_be_reset_without_checkpoint(harness: ReaderHarness) -> None:
    connector = SparkSourceConnector()
    config = {"spark.format": "rate", "checkpoint.location": str(harness.checkpoint)}
    (partition,) = make_offsets(harness, 0)
    with pytest.raises(ValueError, match="cannot be altered, only reset"):
        connector.alter_offsets(config, make_offsets(harness, 7))
    assert connector.alter_offsets(config, {partition: None})
    harness.checkpoint.mkdir()
    (harness.checkpoint / "metadata").write_text('{"id":"q"}')
    with pytest.raises(ValueError, match=r"delete \S+ first, then reset the offsets"):
        connector.alter_offsets(config, {partition: None})
