"""Tests for the choice of the way to write a sink's batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kraal.engine.sink.ways import ReadBatch, SinkFacts, Way, choose

WHY = "which are processed one by one because of transforms"
PLAIN = SinkFacts()
DIRECT = SinkFacts(direct=True)
TRANSFORMED = SinkFacts(by_records=WHY, column_form=True)
NO_COLUMNS = SinkFacts(by_records=WHY)
TAIL = ReadBatch(ranges={}, records=1, table=pa.table({"value": [b"a"]}))
BACKLOG = ReadBatch(ranges={}, records=1000)
MALFORMED = ReadBatch(ranges={}, records=2, is_tail=True)


@pytest.mark.parametrize(
    ("task", "batch", "differs", "way", "why"),
    [
        (PLAIN, TAIL, False, Way.TAIL, "few records wait"),
        (DIRECT, TAIL, False, Way.DIRECT, "few records wait"),
        (DIRECT, BACKLOG, False, Way.BACKLOG, "many records wait"),
        (PLAIN, BACKLOG, False, Way.BACKLOG, "many records wait"),
        (TRANSFORMED, TAIL, False, Way.TAIL_BY_RECORDS, f"few records wait, {WHY}"),
        (
            TRANSFORMED,
            BACKLOG,
            False,
            Way.BACKLOG_BY_COLUMNS,
            "their schema and transforms have a column form",
        ),
        (TRANSFORMED, BACKLOG, True, Way.BACKLOG_BY_RECORDS, "some have another form than the first one"),
        (NO_COLUMNS, BACKLOG, False, Way.BACKLOG_BY_RECORDS, f"many records wait, {WHY}"),
        (DIRECT, MALFORMED, False, Way.BACKLOG, "a header's name is not UTF-8"),
        (NO_COLUMNS, MALFORMED, False, Way.BACKLOG_BY_RECORDS, f"a header's name is not UTF-8, {WHY}"),
    ],
)
def test_way_is_chosen_by_task_properties_and_batch(
    task: SinkFacts, batch: ReadBatch, way: Way, why: str, *, differs: bool
) -> None:
    choice = choose(task, batch, differs=differs)
    assert choice.way is way
    assert str(choice) == f"{way.value}: {choice.why}"
    assert why in choice.why
