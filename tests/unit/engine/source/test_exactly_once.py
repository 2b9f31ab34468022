"""Tests for the start, commit and retry of a source's transactions (KIP-618)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from typing_extensions import override

from kraal.config.connector.batches import Batches
from kraal.core.errors import Fenced, StoreUnavailable
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import Offset, SourcePartition
from kraal.engine.api import BatchDone, TaskSpec
from kraal.engine.context import ExecutorContext
from kraal.engine.executor import JobLauncher, JobResult, run_job
from kraal.engine.lanes.rows import python_columns
from kraal.engine.pace import Pace
from kraal.engine.records.source_pass import HEADERS
from kraal.engine.source.exactly_once import (
    TransactionalSourceExecutor,
    TransactionWriter,
    interval_s,
    slice_batches,
)
from kraal.engine.source.parts import SourceParts
from kraal.engine.source.record_batches import SourceRecords
from kraal.engine.source.write_paths import WritePath
from kraal.ledger.counts import BatchEntry, Counts, Range, RangeStart
from kraal.plugins.api import RetriableError, SourceBatch, SourceTask
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import STRING
from tests.fakes.spark.passes import ALL, steps

PART = SourcePartition.of({"list": "a"})
INTERVAL = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000"}


@dataclass
class Transactions:
    """Records commits. `errors` contains the errors that the next calls of `write` and `commit` raise."""

    commits: list[tuple[list[Any], dict[SourcePartition, Offset]]] = field(default_factory=list)
    open_values: list[Any] = field(default_factory=list)
    errors: dict[str, list[Exception]] = field(default_factory=dict)
    is_open: bool = False
    is_closed: bool = False

    def _raise_error(self, name: str) -> None:
        if self.errors.get(name):
            self.open_values, self.is_open = [], False
            raise self.errors[name].pop(0)

    def write(
        self,
        topic: str | None,
        columns: Mapping[str, Sequence[Any]],
        offset_callbacks: Mapping[int, Callable[[int], None]] | None = None,
    ) -> None:
        assert topic == "t"
        assert not offset_callbacks, "no offsets are requested"
        self._raise_error("write")
        self.is_open = True
        self.open_values += [value.decode() for value in columns["value"]]

    def commit(self, offsets: Mapping[SourcePartition, Offset | None]) -> int:
        self._raise_error("commit")
        self.commits.append((self.open_values, {k: v for k, v in offsets.items() if v is not None}))
        count, self.open_values, self.is_open = len(self.open_values), [], False
        return count

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


class Numbers(SourceTask):
    """Returns two numbers per poll, up to `last`."""

    def __init__(self) -> None:
        self.next = 0
        self.last = 10

    @override
    def start(self, config: Any, offsets: Any, context: Any) -> None:
        pass

    @override
    def poll(self) -> SourceBatch | None:
        if self.next >= self.last:
            return None
        self.next += 2
        values = [str(self.next - 1), str(self.next)]
        return SourceBatch(
            offsets={PART: {"position": self.next}}, table=pa.table({"value": values}), topic="t"
        )


class NumbersExecutor(TransactionalSourceExecutor):
    """An executor whose plugin is `Numbers`."""

    def begin(self, transactions: Transactions) -> Numbers:
        parts = SourceParts(
            spec=self._spec,
            context=self._context,
            group=self._group,
            converters=cast("Any", None),
            records=None,
            worker_records=cast("Any", None),
            topics=None,
            cancelled=self._cancelled,
        )
        self._create_writers(parts, None)
        length_s = interval_s(self._spec.connector_config, {})
        self._writer = TransactionWriter(parts, transactions, length_s, lambda: self._reads_continuously)
        self._writers = {WritePath.TRANSACTION: self._writer}
        self._task = task = Numbers()
        return task


@contextlib.contextmanager
def fail_if_job_runs(description: str) -> Iterator[Any]:
    yield pytest.fail(f"Unexpected Spark job: {description}")


def make_executor(
    config: Mapping[str, str] | None = None, *, counts_records: bool = True
) -> tuple[NumbersExecutor, Numbers, Transactions]:
    transactions = Transactions()
    spec = TaskSpec(
        task=TaskId(ConnectorName("c"), 0),
        task_config={},
        connector_config=config or {},
        transactions=transactions,
        counts_records=counts_records,
    )
    context = SimpleNamespace(
        worker={},
        launch=lambda function: lambda done: done(run_job(function)),
        run=lambda function, done: done(run_job(function)),
        poll_interval_s=1.0,
        pace=Pace(time.monotonic),
        batches=lambda _: Batches(),
    )
    executor = NumbersExecutor(
        spec,
        Numbers,
        "1",
        {},
        cast("ExecutorContext", context),
        cast("Any", SimpleNamespace(job=fail_if_job_runs, cancel=None, renew=lambda: None)),
    )
    return executor, executor.begin(transactions), transactions


def run(launch: JobLauncher | None) -> JobResult:
    assert launch is not None
    outcomes: list[JobResult] = []
    launch(outcomes.append)
    return outcomes[0]


def test_each_poll_is_written_in_a_transaction_with_its_offsets() -> None:
    executor, _, transactions = make_executor()
    for number in (1, 2):
        done = run(executor.poll(requested=True))
        assert isinstance(done, BatchDone)
        assert (done.offsets, done.records, done.transaction) == ({}, 2, 2)
        assert not executor.is_flowing
        assert transactions.commits[-1] == (
            [str(2 * number - 1), str(2 * number)],
            {PART: {"position": 2 * number}},
        )


@pytest.mark.parametrize("method", ["write", "commit"])
def test_retriable_transaction_error_repeats_the_same_batch(method: str) -> None:
    executor, _, transactions = make_executor()
    transactions.errors[method] = [StoreUnavailable("no broker responds")]
    launch = executor.poll(requested=True)
    first_result = run(launch)
    assert isinstance(first_result, RetriableError)
    assert transactions.commits == []
    assert isinstance(run(launch), BatchDone)
    assert transactions.commits == [(["1", "2"], {PART: {"position": 2}})]


def test_fenced_producer_fails_the_task() -> None:
    executor, _, transactions = make_executor()
    transactions.errors["commit"] = [Fenced("There is a newer producer")]
    assert isinstance(run(executor.poll(requested=True)), Fenced)


def test_interval_boundary_combines_several_polls_in_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    executor, task, transactions = make_executor(INTERVAL)
    first_result, second_result = run(executor.poll(requested=True)), run(executor.poll(requested=True))
    assert isinstance(first_result, BatchDone)
    assert isinstance(second_result, BatchDone)
    assert (first_result.transaction, second_result.transaction, transactions.commits) == (None, None, [])
    assert executor.is_flowing
    now[0] = 1.0
    third_result = run(executor.poll(requested=True))
    assert isinstance(third_result, BatchDone)
    assert (third_result.records, third_result.transaction) == (0, 4), (
        "the commit is due, and there was no further poll"
    )
    assert transactions.commits == [(["1", "2", "3", "4"], {PART: {"position": 4}})]
    assert task.next == 4
    assert not executor.is_flowing


def test_interval_transaction_is_committed_before_a_pause_or_stop() -> None:
    executor, _, transactions = make_executor(INTERVAL)
    run(executor.poll(requested=True))
    done = run(executor.poll(requested=False))
    assert isinstance(done, BatchDone)
    assert done.transaction == 2
    assert transactions.commits == [(["1", "2"], {PART: {"position": 2}})]


def test_failure_after_an_earlier_batch_of_the_transaction_is_not_retried() -> None:
    executor, _, transactions = make_executor(INTERVAL)
    run(executor.poll(requested=True))
    transactions.errors["write"] = [StoreUnavailable("no broker responds")]
    assert isinstance(run(executor.poll(requested=True)), StoreUnavailable)
    assert transactions.commits == []


def test_closing_the_executor_closes_the_producer() -> None:
    executor, _, transactions = make_executor()
    executor.close()
    assert transactions.is_closed


@pytest.mark.parametrize(
    ("connector", "worker", "seconds"),
    [
        ({}, {}, None),
        ({"transaction.boundary": "POLL"}, {}, None),
        ({"transaction.boundary": "Interval"}, {}, 60.0),
        ({"transaction.boundary": "interval"}, {"offset.flush.interval.ms": "500"}, 0.5),
        (INTERVAL, {"offset.flush.interval.ms": "500"}, 1.0),
    ],
)
def test_transaction_interval_is_read_from_the_configs(
    connector: dict[str, str], worker: dict[str, str], seconds: float | None
) -> None:
    assert interval_s(connector, worker) == seconds


def test_connector_transaction_boundary_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"transaction\.boundary=connector"):
        interval_s({"transaction.boundary": "connector"}, {})


def test_columns_without_values_are_dropped_and_headers_become_pairs() -> None:
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "value": pa.nulls(2, pa.binary()),
            "key": pa.nulls(2, pa.binary()),
            "headers": pa.array([[{"key": "h", "value": b"v"}], None], header),
            "partition": pa.array([None, 3], pa.int32()),
            "other": pa.array([1, 2]),
        }
    )
    (part,) = slice_batches(table.to_batches())
    assert python_columns(part) == {
        "value": [None, None],
        "headers": [[("h", b"v")], None],
        "partition": [None, 3],
    }


def test_nul_in_a_header_name_raises_an_error_with_the_name() -> None:
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([None, [{"key": "a\0b", "value": b"v"}]], header)
    columns = {"value": pa.nulls(2, pa.binary()), "headers": headers, "topic": pa.array(["t", "u"])}
    (part,) = slice_batches(pa.table(columns).to_batches())
    with pytest.raises(
        DataException, match=r"header name 'a\\x00b' of a record for the topic u contains NUL"
    ):
        python_columns(part)


def test_record_with_nul_in_a_header_name_is_skipped_if_errors_are_tolerated() -> None:
    spec = TaskSpec(
        task=TaskId(ConnectorName("c"), 0), task_config={}, connector_config={}, transactions=Transactions()
    )
    headers = pa.array([[{"key": "a\0b", "value": b"v"}], None], HEADERS)
    table = pa.table({"value": ["a", "b"], "headers": headers})
    batch = SourceBatch(offsets={}, table=table, topic="t", value_schema=STRING)
    records = SourceRecords(spec, steps(ALL, moody=False), None, None, threading.Event())
    processed, summary = records.process_table(batch)
    assert processed["value"].to_pylist() == [b"b"]
    assert (summary.counts.skipped, summary.fatal) == (1, None)
    (part,) = slice_batches(processed.to_batches())
    assert python_columns(part)["value"] == [b"b"]


def test_entry_of_a_transaction_contains_the_records_of_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    executor, _, _ = make_executor(INTERVAL)
    for _ in range(2):
        done = run(executor.poll(requested=True))
        assert isinstance(done, BatchDone)
        assert done.entry is None, "the transaction is open"
    now[0] = 1.0
    done = run(executor.poll(requested=True))
    assert isinstance(done, BatchDone)
    assert done.entry == BatchEntry(
        counts=Counts(read=4, written=4),
        ranges={PART: Range(None, '{"position":4}', RangeStart.RESUMED)},
    )


def test_transaction_has_no_entry_without_a_ledger() -> None:
    executor, _, _ = make_executor(counts_records=False)
    done = run(executor.poll(requested=True))
    assert isinstance(done, BatchDone)
    assert done.entry is None


def test_entry_of_a_repeated_transaction_counts_its_records_once() -> None:
    executor, _, transactions = make_executor()
    transactions.errors["commit"] = [StoreUnavailable("no broker responds")]
    launch = executor.poll(requested=True)
    assert isinstance(run(launch), RetriableError)
    first, second = run(launch), run(executor.poll(requested=True))
    assert isinstance(first, BatchDone)
    assert isinstance(second, BatchDone)
    assert first.entry is not None
    assert first.entry.counts == Counts(read=2, written=2)
    assert second.entry == BatchEntry(
        counts=Counts(read=2, written=2), ranges={PART: Range('{"position":2}', '{"position":4}')}
    )
