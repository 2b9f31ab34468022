"""Tests for the choice of the way to write a source's batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraal.engine.source.ways import MAX_WORKER_ROWS, PolledBatch, SourceFacts, Way, choose
from kraal.plugins.api import SourceBatch

PLAIN = SourceFacts()
TRANSFORMED = SourceFacts(by_records="which are processed one by one because of transforms")
EXACTLY_ONCE = SourceFacts(transactional=True)


def polled(
    rows: int | None,
    *,
    columns: bool = False,
    without_job: Way | None = None,
    is_plain: bool = False,
    passes_here: bool = False,
) -> PolledBatch:
    """Return a batch with a table of this size, or for None, one that Spark reads."""
    table = None if rows is None else pa.table({"value": ["a"] * rows})
    batch = SourceBatch(offsets={}, table=table, topic="t")
    return PolledBatch(
        batch=batch,
        number=1,
        poll_s=0.0,
        by_columns=columns,
        is_plain=is_plain,
        passes_here=passes_here,
        without_job=without_job,
    )


@pytest.mark.parametrize(
    ("task", "batch", "way", "why"),
    [
        (PLAIN, polled(3), Way.COALESCED, "the plugin returns the records"),
        (PLAIN, polled(3, is_plain=True), Way.COALESCED, "the plugin returns the records"),
        (
            PLAIN,
            polled(3, is_plain=True, without_job=Way.LANE),
            Way.LANE,
            "at most 1000 records, which require no conversion",
        ),
        (
            PLAIN,
            polled(3, is_plain=True, without_job=Way.WORKER_PRODUCER),
            Way.WORKER_PRODUCER,
            "at most 1000 records, which require no conversion",
        ),
        (PLAIN, polled(3, without_job=Way.LANE), Way.COALESCED, "the plugin returns the records"),
        (
            PLAIN,
            polled(3, passes_here=True, without_job=Way.LANE),
            Way.IN_WORKER,
            "at most 1000 records, which require only conversion",
        ),
        (PLAIN, polled(None), Way.OWN_JOB, "Spark reads the records"),
        (
            TRANSFORMED,
            polled(3),
            Way.IN_WORKER,
            "at most 5000 records, which are processed one by one because of transforms",
        ),
        (TRANSFORMED, polled(MAX_WORKER_ROWS), Way.IN_WORKER, "at most 5000 records"),
        (TRANSFORMED, polled(MAX_WORKER_ROWS + 1), Way.OWN_JOB, "more than 5000 records"),
        (TRANSFORMED, polled(3, columns=True), Way.COALESCED, "every transform has a column form"),
        (TRANSFORMED, polled(None), Way.OWN_JOB, "Spark reads the records, which are processed one by one"),
        (TRANSFORMED, polled(3, is_plain=True, without_job=Way.LANE), Way.IN_WORKER, "at most 5000 records"),
        (
            EXACTLY_ONCE,
            polled(3, is_plain=True, without_job=Way.LANE),
            Way.TRANSACTION,
            "exactly-once support",
        ),
        (EXACTLY_ONCE, polled(3), Way.TRANSACTION, "exactly-once support"),
        (EXACTLY_ONCE, polled(None), Way.TRANSACTION, "exactly-once support"),
    ],
)
def test_way_is_chosen_by_task_properties_and_batch(
    task: SourceFacts, batch: PolledBatch, way: Way, why: str
) -> None:
    choice = choose(task, batch)
    assert choice.way is way
    assert why in str(choice)
    assert str(choice).startswith(way.value)
