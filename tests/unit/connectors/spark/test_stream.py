"""A format that is only a stream, without Spark: when its query continues, and what a restart passes over."""

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
    Place,
    check_checkpoint,
    last_batch_in,
    make_partition,
    query_in,
)
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.streaming.polled_query import Batch, BatchNotWritten, Handover, NotPlanned
from kraal.plugins.api import SourceBatch, TaskContext

TIMEOUT_S = 20.0


class Spark:
    """Spark's side of a query: offers batches on a thread of its own, and notes which passed."""

    def __init__(self, checkpoint: Path, first: int, written: int, planned: Callable[[], int]) -> None:
        self.handover = Handover(written, planned)
        self.id = "q"
        self.fault: Exception | None = None
        self.noted: queue.SimpleQueue[int | str] = queue.SimpleQueue()
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
                self.noted.put(number)
                number += 1
        self.noted.put("given up")

    @property
    def has_batch(self) -> bool:
        return self.handover.batch is not None

    def batch(self) -> Batch | None:
        if self.fault is not None:
            raise self.fault
        return self.handover.batch

    def record_written(self, number: int) -> None:
        self.handover.record_written(number)

    def end(self) -> None:
        self.handover.give_up()
        self._thread.join(TIMEOUT_S)


class Bench:
    """A reader whose queries are `Spark`; each plans again what the one before did not note."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.queries: list[Spark] = []
        self.next = 0

    def reader(self, offsets: dict[SourcePartition, Offset] | None = None) -> StreamReader:
        config = {"spark.format": "rate", "checkpoint.location": str(self.checkpoint), "topic": "t"}
        reader = StreamReader(SPARK_SOURCE.parse(config), {}, (0, 1), offsets or {})
        reader._layout = SimpleNamespace(  # type: ignore[assignment]  # columns are Spark's
            batch=lambda frame, offsets: SourceBatch(offsets=offsets, topic=frame)
        )
        return reader

    def query(
        self, _: object, *, checkpoint: str, interval_ms: int, written: int, planned: Callable[[], int]
    ) -> Spark:
        del interval_ms
        query = Spark(Path(checkpoint.removeprefix("file://")), self.next, written, planned)
        self.queries.append(query)
        return query

    def take(self, reader: StreamReader) -> SourceBatch:
        """Look until there is a batch."""
        for _ in range(2000):
            if reader.may_have_more() and (batch := reader.discover(NOTHING)) is not None:
                return batch
            threading.Event().wait(0.005)
        raise AssertionError("no batch came")


class _Session:
    """A session whose streams are nothing."""

    conf = SimpleNamespace(get=lambda *_: "set", set=lambda *_: None, getAll={})

    def newSession(self) -> _Session:  # noqa: N802 - as Spark has it
        return self

    @property
    def readStream(self) -> _Session:  # noqa: N802 - as above
        return self

    def format(self, _: str) -> _Session:
        return self

    def options(self, **_: str) -> _Session:
        return self

    def load(self) -> None: ...


NOTHING: Any = _Session()


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    bench = Bench(tmp_path / "checkpoint")
    monkeypatch.setattr(module, "BatchQuery", bench.query)
    yield bench
    for each in bench.queries:
        each.end()


def place(bench: Bench, batch: int) -> dict[SourcePartition, Offset]:
    return {make_partition("rate", str(bench.checkpoint)): {"batch": batch, "query": "q"}}


def test_the_query_continues_only_when_a_batch_is_stored(bench: Bench) -> None:
    reader = bench.reader()
    batch = bench.take(reader)
    assert (batch.topic, batch.offsets) == ("rows of 0", place(bench, 0))
    again = reader.discover(NOTHING)  # the job was tried again
    assert again == batch
    (spark,) = bench.queries
    assert spark.noted.empty()
    reader.advance()
    assert spark.noted.get(timeout=TIMEOUT_S) == 0
    assert bench.take(reader).offsets == place(bench, 1)
    reader.close()
    assert spark.noted.get(timeout=TIMEOUT_S) == "given up"


def test_a_rest_before_the_offset_is_stored_repeats_nothing(bench: Bench) -> None:
    reader = bench.reader()
    bench.take(reader)
    ran = reader.runs_on
    reader.rest()
    assert (ran, reader.runs_on) == (True, False)
    assert bench.queries[0].noted.get(timeout=TIMEOUT_S) == "given up"
    reader.advance()  # the actor has stored it meanwhile, and asks for more
    assert bench.take(reader).offsets == place(bench, 1)  # the next query plans batch 0 again
    assert bench.queries[1].noted.get(timeout=TIMEOUT_S) == 0


def test_a_batch_that_was_not_stored_comes_again(bench: Bench) -> None:
    first = bench.reader()
    bench.take(first)
    first.close()
    assert bench.take(bench.reader()).offsets == place(bench, 0)


def test_a_batch_that_was_stored_and_not_noted_is_passed_over(bench: Bench) -> None:
    first = bench.reader()
    bench.take(first)
    first.close()
    assert bench.take(bench.reader(place(bench, 0))).offsets == place(bench, 1)


def test_only_the_batch_that_spark_planned_is_taken(bench: Bench) -> None:
    reader = bench.reader()
    bench.take(reader)
    (spark,) = bench.queries
    forged: Any = "forged rows"
    with pytest.raises(NotPlanned, match="Batch 1 was offered, but the checkpoint's last planned batch is 0"):
        spark.handover.offer(forged, 1)
    with pytest.raises(
        NotPlanned, match="Batch 0 was offered while batch 0 of the streaming query is running"
    ):
        spark.handover.offer(forged, 0)
    assert spark.handover.batch == Batch(0, "rows of 0")  # type: ignore[arg-type]  # no frame here
    assert bench.take(reader).topic == "rows of 0"


@pytest.mark.parametrize("number", [-1, 6, 8])
def test_a_batch_number_that_is_not_in_the_checkpoint_is_refused(number: int) -> None:
    handover = Handover(6, lambda: 7)
    forged: Any = "forged rows"
    with pytest.raises(
        NotPlanned, match=f"Batch {number} was offered, but the checkpoint's last planned batch is 7"
    ):
        handover.offer(forged, number)
    assert handover.batch is None


def test_raises_the_error_that_ended_the_query(bench: Bench) -> None:
    reader = bench.reader()
    bench.take(reader)
    bench.queries[0].fault = ValueError("no such stream")
    with pytest.raises(ValueError, match="no such stream"):
        reader.discover(NOTHING)


def test_a_checkpoint_that_lacks_what_is_stored_is_refused(bench: Bench) -> None:
    with pytest.raises(CheckpointLost, match="does not have batch 3 of the query q"):
        bench.reader(place(bench, 3)).discover(NOTHING)
    assert bench.queries == []
    where = str(bench.checkpoint)
    (bench.checkpoint / "offsets").mkdir(parents=True)
    (bench.checkpoint / "metadata").write_text('{"id":"q"}')
    assert (query_in(where), last_batch_in(where)) == ("q", -1)
    (bench.checkpoint / "offsets" / "2").write_text("")
    (bench.checkpoint / "offsets" / "10.tmp").write_text("")
    with pytest.raises(CheckpointLost):
        check_checkpoint(where, Place(3, "q"))
    with pytest.raises(CheckpointLost):
        check_checkpoint(where, Place(2, "another"))
    check_checkpoint(where, Place(2, "q"))
    check_checkpoint(where, None)


def test_rejects_offsets_that_are_not_a_streams() -> None:
    assert Place.of({"batch": 1, "query": "q"}) == Place(1, "q")
    with pytest.raises(ValueError, match="has no batch or no query"):
        Place.of({"position": 7})


def test_a_task_rests_when_its_query_runs(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = bench.reader()
    monkeypatch.setattr("kraal.connectors.spark.source._reader", lambda _: lambda *_: reader)
    task = SparkSourceTask()
    config = {"spark.format": "rate", "checkpoint.location": str(bench.checkpoint), "topic": "t"}
    view: Any = SimpleNamespace(scratch="", spark_is_local=True, bootstrap_servers="")
    task.start(config, {}, TaskContext(connector="c", task=0, worker=view, connector_config=config))
    ran = [task.runs_on]
    bench.take(reader)
    ran.append(task.runs_on)
    task.rest()
    assert [*ran, task.runs_on] == [False, True, False]
    task.stop()


def test_offsets_of_a_stream_are_only_reset_and_only_behind_its_checkpoint(bench: Bench) -> None:
    connector = SparkSourceConnector()
    config = {"spark.format": "rate", "checkpoint.location": str(bench.checkpoint)}
    (partition,) = place(bench, 0)
    with pytest.raises(ValueError, match="cannot be altered, only reset"):
        connector.alter_offsets(config, place(bench, 7))
    assert connector.alter_offsets(config, {partition: None})
    bench.checkpoint.mkdir()
    (bench.checkpoint / "metadata").write_text('{"id":"q"}')
    with pytest.raises(ValueError, match=r"delete \S+ first, then reset the offsets"):
        connector.alter_offsets(config, {partition: None})
