"""Tests for the choice of the write path for a source's batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraal.engine.source.write_paths import MAX_WORKER_ROWS, PolledBatch, SourceFacts, WritePath, choose
from kraal.plugins.api import SourceBatch

PLAIN_TASK = SourceFacts()
TRANSFORMING_TASK = SourceFacts(by_records="which are processed one by one because of transforms")
EXACTLY_ONCE_TASK = SourceFacts(transactional=True)


def polled(
    row_count: int | None,
    *,
    by_columns: bool = False,
    jobless_path: WritePath | None = None,
    is_plain: bool = False,
    is_convertible: bool = False,
) -> PolledBatch:
    """Return a batch with a table of `row_count` rows; if `row_count` is None, Spark reads the batch."""
    table = None if row_count is None else pa.table({"value": ["a"] * row_count})
    batch = SourceBatch(offsets={}, table=table, topic="t")
    return PolledBatch(
        batch=batch,
        number=1,
        poll_s=0.0,
        by_columns=by_columns,
        is_plain=is_plain,
        is_convertible=is_convertible,
        jobless_path=jobless_path,
    )


@pytest.mark.parametrize(
    ("task", "batch", "write_path", "why"),
    [
        (PLAIN_TASK, polled(3), WritePath.COALESCED, "the plugin returns the records"),
        (PLAIN_TASK, polled(3, is_plain=True), WritePath.COALESCED, "the plugin returns the records"),
        (
            PLAIN_TASK,
            polled(3, is_plain=True, jobless_path=WritePath.LANE),
            WritePath.LANE,
            "at most 1000 records, which require no conversion",
        ),
        (
            PLAIN_TASK,
            polled(3, is_plain=True, jobless_path=WritePath.WORKER_PRODUCER),
            WritePath.WORKER_PRODUCER,
            "at most 1000 records, which require no conversion",
        ),
        (
            PLAIN_TASK,
            polled(3, jobless_path=WritePath.LANE),
            WritePath.COALESCED,
            "the plugin returns the records",
        ),
        (
            PLAIN_TASK,
            polled(3, is_convertible=True, jobless_path=WritePath.LANE),
            WritePath.IN_WORKER,
            "at most 1000 records, which require only conversion",
        ),
        (PLAIN_TASK, polled(None), WritePath.OWN_JOB, "Spark reads the records"),
        (
            TRANSFORMING_TASK,
            polled(3),
            WritePath.IN_WORKER,
            "at most 5000 records, which are processed one by one because of transforms",
        ),
        (TRANSFORMING_TASK, polled(MAX_WORKER_ROWS), WritePath.IN_WORKER, "at most 5000 records"),
        (TRANSFORMING_TASK, polled(MAX_WORKER_ROWS + 1), WritePath.OWN_JOB, "more than 5000 records"),
        (
            TRANSFORMING_TASK,
            polled(3, by_columns=True),
            WritePath.COALESCED,
            "every transform has a column form",
        ),
        (
            TRANSFORMING_TASK,
            polled(None),
            WritePath.OWN_JOB,
            "Spark reads the records, which are processed one by one",
        ),
        (
            TRANSFORMING_TASK,
            polled(3, is_plain=True, jobless_path=WritePath.LANE),
            WritePath.IN_WORKER,
            "at most 5000 records",
        ),
        (
            EXACTLY_ONCE_TASK,
            polled(3, is_plain=True, jobless_path=WritePath.LANE),
            WritePath.TRANSACTION,
            "exactly-once support",
        ),
        (EXACTLY_ONCE_TASK, polled(3), WritePath.TRANSACTION, "exactly-once support"),
        (EXACTLY_ONCE_TASK, polled(None), WritePath.TRANSACTION, "exactly-once support"),
    ],
)
def test_write_path_is_chosen_by_task_properties_and_batch(
    task: SourceFacts, batch: PolledBatch, write_path: WritePath, why: str
) -> None:
    choice = choose(task, batch)
    assert choice.write_path is write_path
    assert why in str(choice)
    assert str(choice).startswith(write_path.value)
