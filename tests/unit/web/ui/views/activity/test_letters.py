from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.activity.dead_letters import (
    MAX_REPLAYED,
    confirmation,
    describe_replay,
    parse_letters,
    parse_limit,
    parse_preview,
    replay_request,
)

LETTER: Any = {
    "topic": "dead",
    "partition": 0,
    "offset": 17,
    "timestamp": 1_000,
    "key": "k",
    "value_base64": "/w==",
    "headers": [
        {"key": "trace-id", "value": "7"},
        {"key": "odd", "value_base64": "/w=="},
        {"key": "n", "value": None},
    ],
    "error": {
        "topic": "orders",
        "partition": 2,
        "offset": 99,
        "connector": "orders-sink",
        "task": 1,
        "stage": "VALUE_CONVERTER",
        "class": "org.apache.kafka.connect.json.JsonConverter",
        "exception": "org.apache.kafka.connect.errors.DataException",
        "message": "Converting byte[] failed",
        "stacktrace": "DataException: Converting byte[] failed\n\tat a.B\nCaused by: ParseException: Unexpected end",
    },
}


def make_response(*letters: Any) -> Any:
    return {"topic": "dead", "letters": 40, "left_to_replay": 17, "shown": list(letters)}


def test_letter_has_origin_and_failure() -> None:
    letters = parse_letters(make_response(LETTER))
    (letter,) = letters.latest
    assert (letters.topic, letters.letters, letters.remaining) == ("dead", 40, 17)
    assert (letter.position, letter.origin, letter.task, letter.ms) == ("dead-0@17", "orders-2@99", 1, 1_000)
    assert (letter.stage, letter.message) == ("VALUE_CONVERTER", "Converting byte[] failed")
    assert letter.cause == "ParseException: Unexpected end"
    assert letter.class_name.endswith("JsonConverter")
    assert letter.has_error_headers


def test_bytes_are_text_base64_or_null() -> None:
    (letter,) = parse_letters(make_response(LETTER)).latest
    assert (letter.key.text, letter.key.kind) == ("k", "text")
    assert (letter.value.text, letter.value.kind) == ("/w==", "base64")
    assert [(name, value.kind) for name, value in letter.headers] == [
        ("trace-id", "text"),
        ("odd", "base64"),
        ("n", "null"),
    ]


def test_letter_without_context_headers_is_shown() -> None:
    (letter,) = parse_letters(make_response({**LETTER, "error": None})).latest
    assert (letter.origin, letter.has_error_headers, letter.position) == ("", False, "dead-0@17")


def test_letter_of_a_source_has_an_origin_without_offset() -> None:
    (letter,) = parse_letters(make_response({**LETTER, "error": {"topic": "orders"}})).latest
    assert letter.origin == "orders"


def test_newest_letter_comes_first_and_exceptions_are_counted() -> None:
    later_letter = {**LETTER, "timestamp": 2_000, "offset": 18}
    letters = parse_letters(make_response(LETTER, later_letter, {**LETTER, "error": {"exception": "E"}}))
    assert [letter.ms for letter in letters.latest] == [2_000, 1_000, 1_000]
    assert letters.causes == [("org.apache.kafka.connect.errors.DataException", 2), ("E", 1)]


def test_truncated_fields_have_their_full_size() -> None:
    sizes = {"key": 5_000, "value": 1_000_000, "headers": 9_000}
    (letter,) = parse_letters(make_response({**LETTER, "truncated": sizes})).latest
    assert (letter.key.full_size, letter.value.full_size, letter.has_omitted_headers) == (
        5_000,
        1_000_000,
        True,
    )
    (complete_letter,) = parse_letters(make_response({**LETTER, "truncated": {}})).latest
    assert (
        complete_letter.key.full_size,
        complete_letter.value.full_size,
        complete_letter.has_omitted_headers,
    ) == (
        None,
        None,
        False,
    )


def test_partial_search_of_the_topic_is_reported() -> None:
    assert parse_letters({**make_response(), "searched": 39}).searched_count == 39
    assert parse_letters({**make_response(), "searched": 40}).searched_count is None
    assert parse_letters(make_response()).searched_count is None


@pytest.mark.parametrize("malformed", [None, [], {"shown": 7}, {"shown": [7]}])
def test_malformed_response_has_no_letters(malformed: object) -> None:
    assert parse_letters(malformed).latest == []


@pytest.mark.parametrize(
    ("text", "limit"), [("", MAX_REPLAYED), (" 17 ", 17), (str(MAX_REPLAYED), MAX_REPLAYED)]
)
def test_limit_defaults_to_the_maximum(text: str, limit: int) -> None:
    assert parse_limit(text) == limit


@pytest.mark.parametrize("text", ["0", "-1", "x", "10001", "9" * 5_000, "1.5", "\u0661"])
def test_invalid_limits_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"records\.$"):
        parse_limit(text)


def test_replay_request_has_limit_and_dry_run() -> None:
    request = replay_request("orders/sink", 5, dry_run=True)
    assert request.text == "POST /connectors/orders%2Fsink/dead-letters/replay"
    assert request.body == {"limit": 5, "dry_run": True}


def test_confirmation_lists_record_counts_by_topic() -> None:
    preview = parse_preview({"dry_run": True, "written": {"orders": 12, "clicks": 3, "none": 0, "odd": "x"}})
    prompt = confirmation("orders-sink", preview, 15)
    assert prompt.question == "Replay 15 dead letters of orders-sink?"
    assert "They are written to clicks (3) and orders (12) again" in prompt.effects[0]
    assert prompt.effects[-1] == "Remaining letters are left for another replay."
    assert confirmation("orders-sink", preview, 16).effects[-1] != prompt.effects[-1]


def test_result_lists_written_records() -> None:
    assert describe_replay("c", {"written": {"orders": 12}}).text == "12 records written to orders (12)"
    assert (
        describe_replay("c", {"written": {"a": 1}, "left_to_replay": 7}).text
        == "1 record written to a (1); 7 left"
    )
    assert describe_replay("c", {"written": {}}).text == "there was nothing left to replay"
    assert describe_replay("c", None).done
