from __future__ import annotations

import json
from typing import Any

import pytest

from web.ui.views.offsets import (
    Kind,
    TypedOffset,
    build_table,
    can_change,
    change_question,
    preview,
    read_rows,
    reset_question,
)


def sink_response(*offsets: tuple[str, int, int | None]) -> Any:
    return {
        "offsets": [
            {
                "partition": {"kafka_topic": topic, "kafka_partition": number},
                "offset": None if position is None else {"kafka_offset": position},
            }
            for topic, number, position in offsets
        ]
    }


def source_response(*offsets: tuple[Any, Any]) -> Any:
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in offsets]}


def typed_offset(row: Any, after: str, *, delete: bool = False) -> TypedOffset:
    return TypedOffset(partition=row.partition, before=row.offset, after=after, delete=delete)


def test_sink_offsets_are_sorted_by_topic_and_partition() -> None:
    table = build_table(sink_response(("t", 10, 5), ("t", 9, None), ("a", 0, 1)), is_sink=True)
    assert [(row.topic, row.number, row.position) for row in table.rows] == [
        ("a", "0", "1"),
        ("t", "9", ""),
        ("t", "10", "5"),
    ]
    assert (table.total, table.match_count) == (3, 3)


def test_source_offsets_keep_the_field_order() -> None:
    (row,) = build_table(source_response(({"z": 1, "a": "ä"}, {"pos": 1.50})), is_sink=False).rows
    assert row.partition == '{"z": 1, "a": "ä"}'
    assert row.offset == '{"pos": 1.5}'


def test_table_is_filtered_and_limited() -> None:
    response = source_response(*(({"file": f"F{number}"}, {"p": number}) for number in range(30)))
    table = build_table(response, is_sink=False, query="f1", limit=5)
    assert (len(table.rows), table.match_count, table.total) == (5, 11, 30)


@pytest.mark.parametrize(
    ("status", "is_allowed"),
    [
        ({"connector": {"state": "STOPPED"}, "tasks": []}, True),
        ({"connector": {"state": "STOPPED"}, "tasks": [{"id": 0, "state": "RUNNING"}]}, False),
        ({"connector": {"state": "PAUSED"}, "tasks": []}, False),
        ({}, False),
        (None, False),
    ],
)
def test_offsets_can_be_changed_only_when_stopped_without_tasks(*, status: Any, is_allowed: bool) -> None:
    assert can_change(status) is is_allowed


def test_preview_shows_old_and_new_offsets_with_the_distance() -> None:
    response = sink_response(("t", 0, 100), ("t", 1, 100), ("t", 2, None), ("t", 3, 7), ("t", 4, 9))
    rows = build_table(response, is_sink=True).rows
    result = preview(
        [
            typed_offset(rows[0], "90"),
            typed_offset(rows[1], "1100"),
            typed_offset(rows[2], "5"),
            typed_offset(rows[3], "", delete=True),
            typed_offset(rows[4], " 9 "),
        ],
        response,
        is_sink=True,
    )
    assert [(change.kind, change.records) for change in result.changes] == [
        (Kind.BACK, 10),
        (Kind.FORWARD, 1000),
        (Kind.ADDED, None),
        (Kind.DELETED, None),
    ]
    assert [change.effect for change in result.changes] == [
        "reads at most 10 records again",
        "skips at most 1,000 records",
        "starts at this offset",
        "no offset; the connector decides where to start",
    ]
    assert (result.errors, result.outdated_partitions) == ({}, ())
    assert result.body == sink_response(("t", 0, 90), ("t", 1, 1100), ("t", 2, 5), ("t", 3, None))


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "1e3", "٣", "9" * 19, "+1"])
def test_sink_offset_is_a_number(text: str) -> None:
    response = sink_response(("t", 0, 1))
    (row,) = build_table(response, is_sink=True).rows
    result = preview([typed_offset(row, text)], response, is_sink=True)
    assert result.changes == ()
    assert "nonnegative integer" in result.errors[row.partition]


def test_empty_offset_is_valid_only_for_deletion() -> None:
    response = sink_response(("t", 0, None))
    (row,) = build_table(response, is_sink=True).rows
    assert preview([typed_offset(row, "", delete=True)], response, is_sink=True).changes == ()


def test_source_offsets_are_json() -> None:
    response = source_response(({"b": 1, "a": 2}, {"position": 5}), ({"b": 2}, {"position": 6}))
    first_row, second_row = build_table(response, is_sink=False).rows
    result = preview(
        [typed_offset(first_row, '{"position":0}'), typed_offset(second_row, '{ "position" : 6 }')],
        response,
        is_sink=False,
    )
    assert [(change.before, change.after, change.kind) for change in result.changes] == [
        ('{"position": 5}', '{"position": 0}', Kind.CHANGED)
    ]
    assert (
        json.dumps(result.body) == '{"offsets": [{"partition": {"b": 1, "a": 2}, "offset": {"position": 0}}]}'
    )


@pytest.mark.parametrize(
    "text", ["", "5", "[1]", "{", '{"a": NaN}', "[" * 100_000, '"x"', '{"a": 1e999}', '{"a": 1, "a": 2}']
)
def test_source_offset_is_an_object_or_null(text: str) -> None:
    response = source_response(({"a": 1}, {"p": 1}))
    (row,) = build_table(response, is_sink=False).rows
    assert row.partition in preview([typed_offset(row, text)], response, is_sink=False).errors
    assert preview([typed_offset(row, "null")], response, is_sink=False).changes[0].kind is Kind.DELETED


def test_concurrent_offset_change_is_reported() -> None:
    (row,) = build_table(sink_response(("t", 0, 5)), is_sink=True).rows
    result = preview([typed_offset(row, "0")], sink_response(("t", 0, 8)), is_sink=True)
    assert result.outdated_partitions == (row.partition,)
    assert result.changes[0].before == '{"kafka_offset": 8}'
    assert preview([typed_offset(row, "5")], sink_response(("t", 0, 8)), is_sink=True).changes == ()


def test_partitions_can_be_added() -> None:
    new_row = TypedOffset(partition='{"kafka_topic":"n","kafka_partition":1}', after='{"kafka_offset": 3}')
    result = preview([new_row, new_row], sink_response(), is_sink=True)
    assert result.body == sink_response(("n", 1, 3))
    assert "Duplicate" in result.errors[new_row.partition]


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ('{"file": "x"}', "null"),
        ('{"kafka_topic":"t","kafka_partition":0}', '{"kafka_offset": -1}'),
        ("null", "null"),
        ("x", "x"),
    ],
)
def test_new_sink_partition_must_have_kafka_fields(partition: str, offset: str) -> None:
    result = preview([TypedOffset(partition=partition, after=offset)], sink_response(), is_sink=True)
    assert result.changes == ()
    assert partition in result.errors


def test_posted_rows_are_read_in_order() -> None:
    pairs = [("p.0", "P0"), ("b.0", "B0"), ("o.0", "O0"), ("p.1", "P1"), ("b.1", "B1"), ("x.1", "on")]
    pairs += [("new.partition", "N"), ("new.offset", "O"), ("new.partition", " "), ("new.offset", "")]
    assert read_rows(pairs) == [
        TypedOffset(partition="P0", before="B0", after="O0"),
        TypedOffset(partition="P1", before="B1", after="", delete=True),
        TypedOffset(partition="N", after="O"),
    ]


def test_confirmations_describe_the_effect() -> None:
    response = sink_response(("t", 0, 5))
    (row,) = build_table(response, is_sink=True).rows
    result = preview([typed_offset(row, "0")], response, is_sink=True)
    assert change_question("s", result.changes, is_sink=True).startswith(
        "Change 1 offset of s? Records between"
    )
    assert "consumer group is deleted" in reset_question("s", 12, is_sink=True)
    assert reset_question("s", 12, is_sink=False).startswith(
        "Delete all 12 offsets of s? Once resumed, the connector starts as if"
    )


@pytest.mark.parametrize("response", [None, [], {"offsets": None}, {"offsets": [1, {"partition": None}]}])
def test_malformed_responses_are_shown_partially(response: Any) -> None:
    assert all(row.partition == "null" for row in build_table(response, is_sink=True).rows)
