"""Tests for the records of the ledger's log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.core.ids import ConnectorName, TaskId
from kraal.core.offsets import SourcePartition
from kraal.ledger.counts import Counts, Range
from kraal.ledger.records import (
    MAX_POSITION_LENGTH,
    LedgerKey,
    LedgerTotals,
    LedgerValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    offset_position,
)
from kraal.ledger.totals import MAX_RANGES, Break, PartitionTotals, TaskTotals, total_batch

TASK = TaskId(ConnectorName("sink"), 0)
PARTITION = (ConnectorName("sink"), SourcePartition.of({"kafka_topic": "t", "kafka_partition": 1}))

numbers = st.integers(0, 10**12)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
positions = numbers | texts | st.none()
COUNTS = (
    "batches", "read", "written", "dropped", "dead_letters", "tolerated",
    "batches_without_read", "batches_without_written", "break_count",
)  # fmt: skip
task_totals = st.builds(
    TaskTotals,
    **dict.fromkeys(COUNTS, numbers),
    breaks=st.lists(st.builds(Break, ranges=texts, reason=texts, time_ms=numbers), max_size=2).map(tuple),
)
partition_totals = st.builds(
    PartitionTotals,
    since=positions,
    end=positions,
    repeated=numbers,
    uncounted=st.lists(st.tuples(positions, positions), max_size=2).map(tuple),
    uncounted_count=numbers,
)


@given(task_totals)
def test_totals_of_a_task_survive_encoding(totals: TaskTotals) -> None:
    value = LedgerValue(totals, 7, "w", 12)
    assert decode_value(TASK, encode_value(value)) == value


@given(partition_totals)
def test_totals_of_a_partition_survive_encoding(totals: PartitionTotals) -> None:
    value = LedgerValue(totals, 7, "w", 12)
    assert decode_value(PARTITION, encode_value(value)) == value


@given(
    st.text(),
    st.integers(0, 10**6)
    | st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()).map(
        SourcePartition.of
    ),
)
def test_keys_survive_encoding(connector: str, part: int | SourcePartition) -> None:
    name = ConnectorName(connector)
    key: LedgerKey = TaskId(name, part) if isinstance(part, int) else (name, part)
    text = encode_key(key)
    assert decode_key(text) == key
    text.encode()


def test_key_does_not_depend_on_the_order_of_fields() -> None:
    partitions = [SourcePartition.of({"a": 1, "b": 2}), SourcePartition.of({"b": 2, "a": 1})]
    assert len({encode_key((ConnectorName("x"), each)) for each in partitions}) == 1


@pytest.mark.parametrize("key", ["", "x", "[]", '["x"]', '["x",true]', '["x",1.5]', "[1,{}]", '["x","y"]'])
def test_keys_of_other_formats_are_ignored(key: str) -> None:
    assert decode_key(key) is None


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="tombstone"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"version":1}', id="without fields"),
        pytest.param(json.dumps({"version": 2, "since": 0}).encode(), id="a later version"),
    ],
)
@pytest.mark.parametrize("key", [TASK, PARTITION], ids=["task", "partition"])
def test_other_values_are_ignored(key: LedgerKey, value: bytes | None) -> None:
    assert decode_value(key, value) is None


def test_totals_of_another_kind_are_ignored() -> None:
    totals: list[tuple[LedgerKey, LedgerTotals]] = [
        (PARTITION, TaskTotals()),
        (TASK, PartitionTotals(since=0, end=1)),
    ]
    assert [decode_value(key, encode_value(LedgerValue(each, 1, "w", 0))) for key, each in totals] == [
        None,
        None,
    ]


def test_equal_offsets_have_equal_positions() -> None:
    assert offset_position({"a": 1, "b": "x"}) == offset_position({"b": "x", "a": 1}) == '{"a":1,"b":"x"}'
    assert offset_position(None) is None


def test_long_offsets_are_hashed() -> None:
    first, same, second = (
        offset_position({"file": "x" * MAX_POSITION_LENGTH, "position": number}) for number in (0, 0, 1)
    )
    assert first == same != second
    assert len(str(first)) < 100


def test_size_of_records_is_limited() -> None:
    position = offset_position({"file": '"' * (MAX_POSITION_LENGTH // 2 - 10)})
    assert len(str(position)) > MAX_POSITION_LENGTH - 20
    uncounted = ((position, position),) * MAX_RANGES
    partition = PartitionTotals(since=position, end=position, uncounted=uncounted)
    names = [f"{number}{chr(0x1F600) * 1000}" for number in range(9)]
    ranges = {SourcePartition.of({"file": name}): Range(position, position) for name in names}
    batch = total_batch(Counts(read=1, written=0), ranges, 0)
    totals = sum((batch for _ in range(2 * MAX_RANGES)), batch)
    assert totals.break_count == 2 * MAX_RANGES + 1
    for each in (partition, totals):
        assert len(encode_value(LedgerValue(each, 1, "w", 0))) < 250_000
