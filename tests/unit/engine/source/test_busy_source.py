"""Tests for the bursts of a source task on a busy worker, with a simulated lane."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from typing_extensions import override

from kraal.core.ids import TopicName
from kraal.engine import pace
from kraal.engine import task_run as run_module
from kraal.engine.api import BatchDone, Failed, Held, Stopped, Waiting
from kraal.engine.record_path import RecordPath
from kraal.engine.source import executor as executor_module
from kraal.engine.source.burst import join, join_ranges
from kraal.engine.source.executor import SourceExecutor
from kraal.engine.source.write_paths import WritePath
from kraal.ledger.counts import BatchEntry, Counts, Range, RangeStart
from kraal.plugins.api import RetriableError, SourceBatch
from kraal.plugins.model.capabilities import class_declares
from tests.unit.engine.source.busy_source import NO_SENDER, PARTITION, Harness, NumberTask, do_nothing
from tests.unit.engine.test_run_retries import ThreadedHost


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    monkeypatch.setattr(run_module, "LEASE_CHECK_INTERVAL_S", 0.01)
    monkeypatch.setattr(run_module, "RETRY_DELAYS_S", (0.01,))
    monkeypatch.setattr(executor_module, "make_converters", lambda *_: None)
    monkeypatch.setattr(executor_module, "read_source_topics", lambda *_: None)
    monkeypatch.setattr(executor_module, "make_lookup", lambda *_: dict.fromkeys)
    monkeypatch.setattr(executor_module, "record_path", lambda *_: RecordPath(cast("Any", None), None, None))
    monkeypatch.setattr(SourceExecutor, "_make_records", lambda *_: None)
    monkeypatch.setattr(pace, "BUSY_RATE", 0)
    NumberTask.allowed, NumberTask.error = threading.Semaphore(0), None
    NumberTask.is_stopped, NumberTask.on_poll = threading.Event(), staticmethod(do_nothing)
    host = ThreadedHost()
    harness = Harness(host, monkeypatch)
    harness.open()
    yield harness
    harness.lane.close()
    host.poller.close(1.0)
    host.waiters.close()
    host.pool.close(1.0)


def test_batches_of_a_busy_source_are_reported_together(harness: Harness) -> None:
    harness.deliver(120)
    harness.assert_all_reported(120)
    assert max(report.batches for report in harness.reports) > 1
    assert any("offsets are stored once a second" in report.write_path for report in harness.reports)


def test_batches_of_a_worker_without_spark_are_reported_together(harness: Harness) -> None:
    harness.context.lanes, harness.context.worker_producers = NO_SENDER, harness.lane
    harness.deliver(120)
    harness.assert_all_reported(120)
    assert max(report.batches for report in harness.reports) > 1
    assert harness.reports[-1].write_path.startswith(WritePath.WORKER_PRODUCER.value)


def test_batches_of_an_idle_worker_are_reported_separately(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "BUSY_RATE", 1e9)
    harness.deliver(20)
    harness.assert_all_reported(20)
    assert [report.batches for report in harness.reports] == [1] * 20


def test_pause_waits_for_the_batch_in_progress(harness: Harness) -> None:
    harness.begin_burst()
    harness.put_unacknowledged()
    harness.run.hold()
    harness.allow()
    harness.lane.resume()
    harness.next_event(Held)
    harness.assert_all_reported(21)
    harness.shorten_bursts()
    harness.request()
    harness.deliver_allowed()
    harness.assert_all_reported(22)


def test_waiting_burst_ends_at_once_for_a_pause(harness: Harness) -> None:
    harness.begin_burst()
    harness.run.hold()
    harness.next_event(Held)
    harness.assert_all_reported(20)


def test_batch_of_a_poll_during_a_pause_is_written_after_it(harness: Harness) -> None:
    harness.begin_burst()
    NumberTask.on_poll = harness.run.hold
    harness.allow()
    harness.next_event(Held)
    harness.assert_all_reported(20)
    harness.shorten_bursts()
    harness.request()
    harness.deliver_allowed()
    harness.assert_all_reported(21)


def test_pause_during_the_first_poll_begins_no_burst(harness: Harness) -> None:
    harness.begin_burst()
    harness.run.hold()
    harness.next_event(Held)
    NumberTask.on_poll = harness.run.hold
    harness.allow()
    harness.request()
    harness.next_event(Held)
    harness.assert_all_reported(21)


def test_stop_reports_all_batches(harness: Harness) -> None:
    harness.begin_burst()
    harness.put_unacknowledged()
    assert not harness.run.stop_if_idle()
    harness.run.hold()
    harness.lane.resume()
    harness.next_event(Held)
    harness.run.stop()
    harness.next_event(Stopped)
    harness.assert_all_reported(21)
    assert NumberTask.is_stopped.is_set()


@pytest.mark.parametrize("in_burst", [True, False])
def test_failed_batch_is_written_again(harness: Harness, *, in_burst: bool) -> None:
    if in_burst:
        harness.begin_burst()
    else:
        harness.deliver(20)
    harness.put_unacknowledged()
    harness.shorten_bursts()
    harness.lane.errors.append(RetriableError("the broker is away"))
    harness.lane.resume()
    harness.deliver(5)
    harness.assert_all_reported(26)


def test_batch_that_the_lane_does_not_accept_ends_the_burst(harness: Harness) -> None:
    harness.begin_burst()
    harness.shorten_bursts()
    harness.lane.is_ready = False
    harness.allow()
    harness.next_event(BatchDone)
    harness.assert_all_reported(20)
    harness.lane.is_ready = True
    harness.request()
    harness.deliver_allowed()
    harness.assert_all_reported(21)


def test_error_of_a_poll_is_retried_after_a_report(harness: Harness) -> None:
    harness.begin_burst()
    harness.shorten_bursts()
    NumberTask.error = RetriableError("the source is away")
    harness.next_event(BatchDone)
    harness.assert_all_reported(20)
    harness.request()
    event = harness.next_event(Waiting)
    assert isinstance(event, Waiting)
    assert "the source is away" in event.reason
    harness.deliver(5)
    harness.assert_all_reported(25)


def test_error_of_a_poll_fails_the_run_after_a_report(harness: Harness) -> None:
    harness.begin_burst()
    NumberTask.error = ValueError("truncated")
    harness.next_event(BatchDone)
    harness.request()
    event = harness.next_event(Failed)
    assert isinstance(event, Failed)
    assert "truncated" in event.trace
    harness.assert_all_reported(20)


def test_burst_ends_without_a_lease(harness: Harness) -> None:
    harness.begin_burst()
    harness.shorten_bursts()
    harness.has_lease = False
    harness.allow()
    harness.next_event(BatchDone)
    harness.request()
    harness.next_event(Waiting)
    harness.assert_all_reported(20)
    harness.has_lease = True
    harness.deliver_allowed()
    harness.assert_all_reported(21)


@pytest.mark.parametrize("in_burst", [True, False])
def test_batch_in_progress_is_cancelled_without_a_lease(harness: Harness, *, in_burst: bool) -> None:
    if in_burst:
        harness.begin_burst()
    else:
        harness.deliver(20)
    harness.put_unacknowledged()
    harness.shorten_bursts()
    harness.has_lease = False
    if in_burst:
        harness.next_event(BatchDone)
        harness.request()
    harness.next_event(Waiting)
    harness.has_lease = True
    harness.lane.resume()
    harness.deliver(5)
    harness.assert_all_reported(26)


def test_task_is_not_polled_after_a_change_of_the_config(harness: Harness) -> None:
    harness.begin_burst()
    harness.may_read = False
    harness.allow()
    harness.next_event(BatchDone)
    harness.run.hold()
    harness.next_event(Held)
    harness.assert_all_reported(20)


@pytest.mark.parametrize("is_writing", [True, False])
def test_cancelled_run_drops_its_batch(harness: Harness, *, is_writing: bool) -> None:
    harness.begin_burst()
    if is_writing:
        harness.put_unacknowledged()
    harness.run.cancel()
    harness.next_event(Stopped)
    harness.lane.resume()
    assert NumberTask.is_stopped.is_set()
    assert len(harness.lane.written) == 20


def test_subclass_with_another_poll_has_no_bursts() -> None:
    class OtherTask(NumberTask):
        @override
        def poll(self) -> SourceBatch | None:
            return None

    assert not class_declares(OtherTask, "polls_ahead", "poll")
    assert class_declares(NumberTask, "polls_ahead", "poll")


def test_join_of_reports() -> None:
    first = BatchDone(
        offsets={PARTITION: {"n": 1}},
        records=1,
        topics=frozenset({TopicName("t")}),
        duration_s=0.5,
        poll_s=0.25,
        entry=BatchEntry(
            counts=Counts(read=1, written=1), ranges={PARTITION: Range(None, 1, RangeStart.RESUMED)}
        ),
    )
    second = replace(
        first, offsets={PARTITION: {"n": 3}}, records=2, entry=BatchEntry(counts=Counts(read=2, written=2))
    )
    total = join(join(first, second), second)
    assert (total.records, total.batches, total.duration_s, total.poll_s) == (5, 3, 1.5, 0.75)
    assert total.offsets == {PARTITION: {"n": 3}}
    assert total.entry is not None
    assert total.entry.counts == Counts(read=5, written=5)
    later = BatchEntry(counts=Counts(), ranges={PARTITION: Range(1, 3, RangeStart.NEXT)})
    assert join_ranges(total.entry, later) == {PARTITION: Range(None, 3, RangeStart.RESUMED)}
