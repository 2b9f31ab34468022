"""Tests for the comparisons of the differential suite, including faults and allowed differences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import allowances as allow
from tests.differential.allowances import Allowance
from tests.differential.compare import Verdict, judge
from tests.differential.exchange import Response
from tests.differential.script import ask, ask_concurrently

ERROR = '{"error_code":500,"message":"Unexpected character"}'
SUCCESS = Response(
    status=200, reason="OK", headers={"content-type": "application/json"}, body='{"a":1,"b":[1,2]}'
)
SERVER_ERROR = Response(status=500, reason="Server Error", body=ERROR)
BAD_REQUEST = Response(status=400, reason="Bad Request", body='{"error_code":400,"message":"no"}')


def verdict(java: Response, kraal: Response, *allowed: Allowance) -> Verdict:
    return judge(ask("a step", "GET /", None, *allowed), [java], [kraal])


def test_equal_responses_have_no_faults() -> None:
    assert verdict(SUCCESS, SUCCESS) == Verdict((), frozenset())


@pytest.mark.parametrize(
    ("kraal_response", "prefix"),
    [
        pytest.param(replace(SUCCESS, status=201), "status: Java 200 OK, Kraal 201 OK", id="status"),
        pytest.param(replace(SUCCESS, reason="Fine"), "status: Java 200 OK, Kraal 200 Fine", id="reason"),
        pytest.param(
            replace(SUCCESS, headers={}), "content-type: Java application/json, Kraal None", id="no header"
        ),
        pytest.param(
            replace(SUCCESS, headers={**SUCCESS.headers, "allow": "GET"}),
            "allow: Java None, Kraal GET",
            id="additional header",
        ),
        pytest.param(replace(SUCCESS, body='{"b":[1,2],"a":1}'), "body:", id="order of fields"),
        pytest.param(replace(SUCCESS, body='{"a":1,"b":[2,1]}'), "body:", id="order of items"),
        pytest.param(replace(SUCCESS, body='{"a": 1,"b":[1,2]}'), "body:", id="whitespace"),
        pytest.param(replace(SUCCESS, body=""), "body:", id="no body"),
        pytest.param(Response(status=0, reason="TimeoutError"), "Kraal did not respond", id="no response"),
    ],
)
def test_every_difference_is_a_fault(kraal_response: Response, prefix: str) -> None:
    faults = verdict(SUCCESS, kraal_response).faults
    assert faults[0].startswith(prefix)


def test_allowed_difference_is_no_fault_and_reports_its_row() -> None:
    assert verdict(SERVER_ERROR, BAD_REQUEST, allow.error("row", 500, 400)) == Verdict((), frozenset({"row"}))


@pytest.mark.parametrize(
    ("java", "kraal", "allowance"),
    [
        pytest.param(SERVER_ERROR, SUCCESS, allow.error("row", 500, 200), id="only Java rejects the request"),
        pytest.param(SERVER_ERROR, BAD_REQUEST, allow.error("row", 500, 404), id="another status"),
        pytest.param(
            SERVER_ERROR,
            replace(BAD_REQUEST, headers={"allow": "x"}),
            allow.error("row", 500, 400),
            id="another header as well",
        ),
        pytest.param(
            SERVER_ERROR,
            replace(BAD_REQUEST, body='{"error_code":400,"message":""}'),
            allow.error("row", 500, 400),
            id="error without a message",
        ),
        pytest.param(
            SUCCESS,
            replace(SUCCESS, status=202, body="x"),
            allow.status("row", 200, 202),
            id="another body as well",
        ),
        pytest.param(
            SUCCESS, replace(SUCCESS, body='{"a":2,"b":[9]}'), allow.fields("row", "a"), id="another field"
        ),
        pytest.param(
            SUCCESS, replace(SUCCESS, body='{"b":[1,2]}'), allow.fields("row", "a"), id="missing field"
        ),
        pytest.param(
            SUCCESS,
            replace(SUCCESS, body='{"a":1,"b":[2,2]}'),
            allow.in_any_order("row", "b"),
            id="other items",
        ),
        pytest.param(
            SUCCESS,
            replace(SUCCESS, body='{"a":1,"b":[2,1]}'),
            allow.in_any_order("row", "c"),
            id="order of another field",
        ),
        pytest.param(
            SUCCESS, replace(SUCCESS, headers={}), allow.header("row", "Location"), id="another header"
        ),
        pytest.param(
            SUCCESS, SERVER_ERROR, allow.whole("row", 200, 400), id="whole response with another status"
        ),
    ],
)
def test_allowance_does_not_cover_other_differences(
    java: Response, kraal: Response, allowance: Allowance
) -> None:
    assert verdict(java, kraal, allowance).faults != ()


def test_order_is_ignored_if_allowed() -> None:
    other = replace(SUCCESS, body='{"a":1,"b":[2,1]}')
    assert verdict(SUCCESS, other, allow.in_any_order("row", "b")) == Verdict((), frozenset({"row"}))


def test_unused_allowance_is_a_fault() -> None:
    assert verdict(SUCCESS, SUCCESS, allow.status("row", 200, 202)).faults == (
        "the row row is not needed here",
    )


def test_unused_random_allowance_is_no_fault() -> None:
    assert verdict(SUCCESS, SUCCESS, allow.in_any_order("row", "b")) == Verdict((), frozenset())


def test_redundant_allowances_are_faults() -> None:
    both = allow.header("one", "Server"), allow.header("two", "Server")
    faults = verdict(SUCCESS, replace(SUCCESS, headers={**SUCCESS.headers, "server": "x"}), *both).faults
    assert faults == ("the row one is not needed here", "the row two is not needed here")


def test_concurrent_responses_are_compared_in_any_order() -> None:
    step = ask_concurrently("a step", [("GET /a", None), ("GET /b", None)])
    assert judge(step, [SUCCESS, SERVER_ERROR], [SERVER_ERROR, SUCCESS]).faults == ()
    assert judge(step, [SUCCESS, SERVER_ERROR], [SERVER_ERROR, SERVER_ERROR]).faults != ()


def test_random_outcomes_compare_only_statuses() -> None:
    step = ask_concurrently("a step", [("GET /a", None), ("GET /b", None)], allowed_statuses=(200,))
    assert judge(step, [SUCCESS, SUCCESS], [SUCCESS, replace(SUCCESS, body="x")]).faults == ()
    assert judge(step, [SUCCESS, SUCCESS], [SUCCESS, SERVER_ERROR]).faults == (f"Kraal: 500 {ERROR}",)


def test_random_outcomes_accept_a_shutdown_error_only_from_java() -> None:
    step = ask_concurrently("a step", [("GET /a", None)], allowed_statuses=(200,))
    message = "Could not begin changing connector state as the connector has been scheduled for shutdown"
    stopping = replace(SERVER_ERROR, body=f'{{"error_code":500,"message":"{message}"}}')
    assert judge(step, [stopping], [SUCCESS]).faults == ()
    assert judge(step, [SUCCESS], [stopping]).faults == (f"Kraal: 500 {stopping.body}",)
    assert judge(step, [SERVER_ERROR], [SUCCESS]).faults == (f"Java: 500 {ERROR}",)
