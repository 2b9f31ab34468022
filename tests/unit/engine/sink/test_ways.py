"""Tests for the choice of the write path for a sink's batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraal.engine.sink.ways import ReadBatch, SinkFacts, WritePath, choose

WHY = "which are processed one by one because of transforms"
PLAIN = SinkFacts()
DIRECT = SinkFacts(direct=True)
TRANSFORMED = SinkFacts(by_records=WHY, column_form=True)
NO_COLUMNS = SinkFacts(by_records=WHY)
TAIL = ReadBatch(ranges={}, records=1, table=pa.table({"value": [b"a"]}))
BACKLOG = ReadBatch(ranges={}, records=1000)
MALFORMED = ReadBatch(ranges={}, records=2, is_tail=True)


@pytest.mark.parametrize(
    ("task", "batch", "differs", "write_path", "why"),
    [
        (PLAIN, TAIL, False, WritePath.TAIL, "few records wait"),
        (DIRECT, TAIL, False, WritePath.DIRECT, "few records wait"),
        (DIRECT, BACKLOG, False, WritePath.BACKLOG, "many records wait"),
        (PLAIN, BACKLOG, False, WritePath.BACKLOG, "many records wait"),
        (TRANSFORMED, TAIL, False, WritePath.TAIL_BY_RECORDS, f"few records wait, {WHY}"),
        (
            TRANSFORMED,
            BACKLOG,
            False,
            WritePath.BACKLOG_BY_COLUMNS,
            "their schema and transforms have a column form",
        ),
        (
            TRANSFORMED,
            BACKLOG,
            True,
            WritePath.BACKLOG_BY_RECORDS,
            "some of which differ in form from the first record",
        ),
        (NO_COLUMNS, BACKLOG, False, WritePath.BACKLOG_BY_RECORDS, f"many records wait, {WHY}"),
        (DIRECT, MALFORMED, False, WritePath.BACKLOG, "a header's name is not UTF-8"),
        (NO_COLUMNS, MALFORMED, False, WritePath.BACKLOG_BY_RECORDS, f"a header's name is not UTF-8, {WHY}"),
    ],
)
def test_write_path_is_chosen_by_task_properties_and_batch(
    task: SinkFacts, batch: ReadBatch, write_path: WritePath, why: str, *, differs: bool
) -> None:
    choice = choose(task, batch, differs=differs)
    assert choice.write_path is write_path
    assert str(choice) == f"{write_path.value}: {choice.why}"
    assert why in choice.why
