"""The choice of how a source's batch is written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraal.engine.source.ways import MAX_WORKER_ROWS, PolledBatch, TaskFacts, Way, choose
from kraal.plugins.api import SourceBatch

PLAIN = TaskFacts()
TRANSFORMED = TaskFacts(by_records="which pass one by one because of transforms")
EXACTLY_ONCE = TaskFacts(transactional=True)


def polled(
    rows: int | None,
    *,
    columns: bool = False,
    without_job: Way | None = None,
    is_plain: bool = False,
    passes_here: bool = False,
) -> PolledBatch:
    """Return a batch of records that the plugin returned, or, for None, that Spark reads."""
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
            "at most 1000 records, which need no conversion",
        ),
        (
            PLAIN,
            polled(3, is_plain=True, without_job=Way.WORKER_PRODUCER),
            Way.WORKER_PRODUCER,
            "at most 1000 records, which need no conversion",
        ),
        (PLAIN, polled(3, without_job=Way.LANE), Way.COALESCED, "the plugin returns the records"),
        (
            PLAIN,
            polled(3, passes_here=True, without_job=Way.LANE),
            Way.IN_WORKER,
            "at most 1000 records, which need only conversion",
        ),
        (PLAIN, polled(None), Way.OWN_JOB, "Spark reads the records"),
        (
            TRANSFORMED,
            polled(3),
            Way.IN_WORKER,
            "at most 5000 records, which pass one by one because of transforms",
        ),
        (TRANSFORMED, polled(MAX_WORKER_ROWS), Way.IN_WORKER, "at most 5000 records"),
        (TRANSFORMED, polled(MAX_WORKER_ROWS + 1), Way.OWN_JOB, "more than 5000 records"),
        (TRANSFORMED, polled(3, columns=True), Way.COALESCED, "every transform has a column form"),
        (TRANSFORMED, polled(None), Way.OWN_JOB, "Spark reads the records, which pass one by one"),
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
def test_chooses_a_way_from_the_tasks_facts_and_the_batch(
    task: TaskFacts, batch: PolledBatch, way: Way, why: str
) -> None:
    choice = choose(task, batch)
    assert choice.way is way
    assert why in str(choice)
    assert str(choice).startswith(way.value)
