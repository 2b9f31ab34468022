"""Tests for the batch size of a sink, which depends on the duration of earlier writes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from kraal.core.ids import ConnectorName, TaskId
from kraal.engine.sink.batch_size import BatchSizing, Sample, Sizes, update_sizing

MAX_RECORDS: Final = 1_000_000
TARGET_S: Final = 10.0

Sink = Callable[[int], float]
"""Maps the number of records in a write to the duration of the write in seconds."""


def batch_sizes(
    sink: Sink, batch_count: int, max_records: int = MAX_RECORDS, available: int = MAX_RECORDS
) -> list[int]:
    """Return the sizes of the first batches of a sink with a backlog of `available` records."""
    sizing, sizes = BatchSizing(), list[int]()
    for _ in range(batch_count):
        size = min(sizing.limit or max_records, max_records, available)
        sizes.append(size)
        sizing = update_sizing(sizing, Sample(size, sink(size)), target_s=TARGET_S, max_records=max_records)
    return sizes


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        pytest.param(lambda n: n * 1e-5, [MAX_RECORDS] * 5, id="as slow as the target"),
        pytest.param(lambda n: 0.5 + n * 1e-6, [MAX_RECORDS] * 5, id="fast"),
        pytest.param(lambda n: n * 2e-5, [MAX_RECORDS, 500_000, 500_000, 500_000], id="twice the target"),
        pytest.param(
            lambda n: n * 1e-3, [MAX_RECORDS, 250_000, 62_500, 15_625, 10_000, 10_000], id="very slow"
        ),
        pytest.param(
            lambda _: 40.0,
            [MAX_RECORDS, 250_000, 500_000, MAX_RECORDS, MAX_RECORDS, MAX_RECORDS],
            id="records cost nothing",
        ),
        pytest.param(
            lambda n: 20 + n * 1e-3,
            [MAX_RECORDS, 250_000, 62_500, 20_000, 20_000, 20_000],
            id="the fixed time exceeds the target",
        ),
    ],
)
def test_batch_sizes_adapt_to_the_duration_of_writes(sink: Sink, expected: list[int]) -> None:
    sizes = batch_sizes(sink, len(expected))
    assert [
        abs(size - expected_size) <= expected_size // 1000
        for size, expected_size in zip(sizes, expected, strict=True)
    ] == [True] * len(expected), sizes


def test_batch_has_at_least_one_record() -> None:
    assert batch_sizes(lambda n: n * 60.0, 12, max_records=1000)[-3:] == [1, 1, 1]


@pytest.mark.parametrize("durations_s", [[0.3] * 20, [9.9] * 20])
def test_small_batches_of_a_sink_with_a_fixed_time_set_no_limit(durations_s: Sequence[float]) -> None:
    sizing = BatchSizing()
    for number, duration_s in enumerate(durations_s):
        sizing = update_sizing(
            sizing, Sample(1 + number % 3, duration_s), target_s=TARGET_S, max_records=MAX_RECORDS
        )
    assert sizing.limit is None


def test_limit_doubles_until_it_is_removed_if_the_sink_becomes_faster() -> None:
    sizing, sizes = BatchSizing(limit=1000, last=Sample(1000, 10.0)), list[int]()
    while sizing.limit is not None:
        sizes.append(sizing.limit)
        sizing = update_sizing(sizing, Sample(sizing.limit, 0.1), target_s=TARGET_S, max_records=MAX_RECORDS)
    assert sizes == [1000 * 2**n for n in range(10)], "the limit was removed"


def test_small_batch_does_not_increase_the_limit() -> None:
    sizing = update_sizing(
        BatchSizing(limit=1000, last=Sample(1000, 10.0)),
        Sample(3, 0.01),
        target_s=TARGET_S,
        max_records=MAX_RECORDS,
    )
    assert sizing.limit == 1000


def test_dominating_fixed_time_stops_the_reduction_of_batch_sizes() -> None:
    sizes = batch_sizes(lambda _: 12.0, 30, max_records=1000, available=100)
    assert sizes[0] == 100
    assert min(sizes) > 50
    assert sizes[4:] == [100] * 26


def test_first_limit_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    sizes = Sizes(TaskId(ConnectorName("slow"), 0), 1000, poll_limit_s=40.0)
    with caplog.at_level(logging.INFO):
        sizes.record_write(1000, 20.0)
        assert sizes.max_records == 500
        sizes.record_write(500, 20.0)
        sizes.record_write(sizes.max_records, 5.0)
    (message,) = caplog.messages
    assert message == (
        "Sink task slow-0: Writing 1000 records took 20.0 s. The next batch has at most 500 records, so that a write "
        "stays well below max.poll.interval.ms (40000)"
    )


@dataclass(frozen=True)
class Record:
    """A record with the overhead of 64 bytes that `Sizes` assumes."""

    value: bytes | None
    key: bytes | None = None


def test_limit_in_bytes_applies_once_the_size_of_records_is_known() -> None:
    sizes = Sizes(TaskId(ConnectorName("wide"), 0), 1000, poll_limit_s=40.0)
    sizes.set_limits(None, 100_000)
    assert sizes.max_records == 1000
    sizes.observe([Record(bytes(936)), Record(bytes(900), bytes(36))])
    assert sizes.max_records == 100
    sizes.observe([Record(None)])
    assert sizes.max_records == 1000
    sizes.observe([Record(bytes(200_000))])
    assert sizes.max_records == 1
    sizes.record_write(1, 1.0)
    sizes.observe([])
    assert sizes.max_records == 1
