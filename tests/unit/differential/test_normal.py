"""Tests for the normalization of responses in the differential suite."""

from __future__ import annotations

import pytest

from tests.differential.exchange import Placeholders, Request, Response
from tests.differential.normal import normalize
from tests.differential.replay import is_momentary
from tests.differential.rows import ids_in

PLACEHOLDERS = Placeholders(tag="t0123abcd", directory="/tmp/a dir", authority="127.0.0.1:8083")  # noqa: S108 - never opened


def normalize_body(text: str) -> str:
    return normalize(Response(status=200, body=text), PLACEHOLDERS).body


@pytest.mark.parametrize(
    ("original_body", "expected_body"),
    [
        pytest.param('{"worker_id":"127.0.0.1:8083"}', '{"worker_id":"WORKER"}', id="worker"),
        pytest.param('{"worker_id":"127.0.0.1:8084"}', '{"worker_id":"127.0.0.1:8084"}', id="another worker"),
        pytest.param('{"topic":"lines-t0123abcd"}', '{"topic":"lines-TAG"}', id="tag"),
        pytest.param('{"file":"/tmp/a dir/in"}', '{"file":"DIR/in"}', id="directory"),
        pytest.param(
            '{"level":"INFO","last_modified":1712}', '{"level":"INFO","last_modified":"TIME"}', id="time"
        ),
        pytest.param('{"last_modified":null}', '{"last_modified":null}', id="no time"),
        pytest.param("began at 2026-11-21T20:28:06.123Z", "began at TIME", id="instant"),
        pytest.param(
            r'{"trace":"Oh: \"no\"\n\tat x\n","id":1}', r'{"trace":"Oh: \"no\"","id":1}', id="trace"
        ),
        pytest.param('{"trace":"Oh","id":1}', '{"trace":"Oh","id":1}', id="trace of one line"),
    ],
)
def test_body_is_normalized(original_body: str, expected_body: str) -> None:
    assert normalize_body(original_body) == expected_body


def test_headers_are_normalized() -> None:
    headers = {
        "location": "http://127.0.0.1:8083/connectors/a-t0123abcd",
        "date": "today",
        "content-length": "1",
    }
    normalized = normalize(Response(status=201, headers=headers), PLACEHOLDERS)
    assert normalized.headers == {"location": "http://WORKER/connectors/a-TAG"}


@pytest.mark.parametrize(
    ("allow", "body", "expected_allow", "expected_body"),
    [
        pytest.param(
            "HEAD,PUT,PATCH", "HEAD, PUT, PATCH", "HEAD,PATCH,PUT", "HEAD, PATCH, PUT", id="OPTIONS"
        ),
        pytest.param("PUT,PATCH", '{"error_code":405}', "PATCH,PUT", '{"error_code":405}', id="error"),
        pytest.param("PUT,PATCH", "PUT, POST", "PATCH,PUT", "PUT, POST", id="other methods"),
        pytest.param("PUT, PATCH", "PUT, PATCH", " PATCH,PUT", "PUT, PATCH", id="another separator"),
    ],
)
def test_allowed_methods_are_sorted(allow: str, body: str, expected_allow: str, expected_body: str) -> None:
    response = normalize(Response(status=200, headers={"allow": allow}, body=body), PLACEHOLDERS)
    assert (response.headers["allow"], response.body) == (expected_allow, expected_body)


def test_percent_encoded_directory_is_replaced() -> None:
    assert PLACEHOLDERS.replace_values("/connectors/%2Ftmp%2Fa%20dir") == "/connectors/DIR"


def test_placeholders_of_a_request_are_replaced() -> None:
    request = Request(method="PUT", target="/a-TAG", body=b'"DIR/x \xff"', headers=(("Host", "WORKER"),))
    assert request.for_worker(PLACEHOLDERS) == Request(
        method="PUT",
        target="/a-t0123abcd",
        body=b'"/tmp/a dir/x \xff"',
        headers=(("Host", "127.0.0.1:8083"),),
    )


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (409, "Cannot complete request momentarily due to stale configuration", True),
        (500, "Request cannot be completed because a rebalance is expected", True),
        (409, "Connector a already exists", False),
        (500, "Cannot write", False),
        (404, "Cannot complete request momentarily", False),
    ],
)
def test_only_errors_due_to_a_rebalance_are_momentary(status: int, message: str, *, expected: bool) -> None:
    response = Response(status=status, body=f'{{"error_code":{status},"message":"{message}"}}')
    assert is_momentary(response) is expected


PAGE = """
| a | why | seen |
|---|---|---|
| x | y | `one` |
| x | y |
| x \\| z | y | `two` |

| a | b |
|---|---|
| x | `three` |
"""


def test_ids_are_read_from_the_last_column() -> None:
    assert set(ids_in(PAGE)) == {"one", "two"}


def test_duplicate_id_is_counted_twice() -> None:
    assert ids_in(PAGE.replace("two", "one"))["one"] == 2


@pytest.mark.parametrize("cell", ["one", "`One`", "`one` `two`", ""])
def test_invalid_id_is_rejected(cell: str) -> None:
    with pytest.raises(ValueError, match="is no id"):
        ids_in(PAGE.replace("`one`", cell))
