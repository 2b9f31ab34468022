"""Tests for the choice of the write path for a sink's batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraal.engine.sink.write_paths import ReadBatch, SinkFacts, WritePath, choose

WHY = "which are processed one by one because of transforms"
PLAIN_TASK = SinkFacts()
DIRECT_TASK = SinkFacts(is_direct=True)
TRANSFORMING_TASK = SinkFacts(by_records=WHY, has_column_form=True)
TASK_WITHOUT_COLUMN_FORM = SinkFacts(by_records=WHY)
TAIL = ReadBatch(ranges={}, records=1, table=pa.table({"value": [b"a"]}))
BACKLOG = ReadBatch(ranges={}, records=1000)
MALFORMED_TAIL = ReadBatch(ranges={}, records=2, is_tail=True)


@pytest.mark.parametrize(
    ("task", "batch", "differs", "write_path", "why"),
    [
        (PLAIN_TASK, TAIL, False, WritePath.TAIL, "few new records"),
        (DIRECT_TASK, TAIL, False, WritePath.DIRECT, "few new records"),
        (DIRECT_TASK, BACKLOG, False, WritePath.BACKLOG, "many new records"),
        (PLAIN_TASK, BACKLOG, False, WritePath.BACKLOG, "many new records"),
        (TRANSFORMING_TASK, TAIL, False, WritePath.TAIL_BY_RECORDS, f"few new records, {WHY}"),
        (
            TRANSFORMING_TASK,
            BACKLOG,
            False,
            WritePath.BACKLOG_BY_COLUMNS,
            "their schema and transforms have a column form",
        ),
        (
            TRANSFORMING_TASK,
            BACKLOG,
            True,
            WritePath.BACKLOG_BY_RECORDS,
            "some of which differ in form from the first record",
        ),
        (TASK_WITHOUT_COLUMN_FORM, BACKLOG, False, WritePath.BACKLOG_BY_RECORDS, f"many new records, {WHY}"),
        (
            DIRECT_TASK,
            MALFORMED_TAIL,
            False,
            WritePath.BACKLOG,
            "records with a header name that is not UTF-8",
        ),
        (
            TASK_WITHOUT_COLUMN_FORM,
            MALFORMED_TAIL,
            False,
            WritePath.BACKLOG_BY_RECORDS,
            f"records with a header name that is not UTF-8, {WHY}",
        ),
    ],
)
def test_write_path_is_chosen_by_task_properties_and_batch(
    task: SinkFacts, batch: ReadBatch, write_path: WritePath, why: str, *, differs: bool
) -> None:
    choice = choose(task, batch, differs=differs)
    assert choice.write_path is write_path
    assert str(choice) == f"{write_path.value}: {choice.why}"
    assert why in choice.why
