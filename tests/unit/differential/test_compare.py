"""The comparisons of the differential suite: faults and allowed differences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.differential import allowances as allow
from tests.differential.allowances import Allowance
from tests.differential.compare import Verdict, judge
from tests.differential.exchange import Response
from tests.differential.script import ask, at_once

ERROR = '{"error_code":500,"message":"Unexpected character"}'
GOOD = Response(
    status=200, reason="OK", headers={"content-type": "application/json"}, body='{"a":1,"b":[1,2]}'
)
REFUSED = Response(status=500, reason="Server Error", body=ERROR)
REFUSED_BETTER = Response(status=400, reason="Bad Request", body='{"error_code":400,"message":"no"}')


def verdict(java: Response, kraal: Response, *allowed: Allowance) -> Verdict:
    return judge(ask("a step", "GET /", None, *allowed), [java], [kraal])


def test_equal_responses_have_no_faults() -> None:
    assert verdict(GOOD, GOOD) == Verdict((), frozenset())


@pytest.mark.parametrize(
    ("other", "begin"),
    [
        pytest.param(replace(GOOD, status=201), "status: Java 200 OK, Kraal 201 OK", id="status"),
        pytest.param(replace(GOOD, reason="Fine"), "status: Java 200 OK, Kraal 200 Fine", id="reason"),
        pytest.param(
            replace(GOOD, headers={}), "content-type: Java application/json, Kraal None", id="no header"
        ),
        pytest.param(
            replace(GOOD, headers={**GOOD.headers, "allow": "GET"}),
            "allow: Java None, Kraal GET",
            id="a header more",
        ),
        pytest.param(replace(GOOD, body='{"b":[1,2],"a":1}'), "body:", id="order of fields"),
        pytest.param(replace(GOOD, body='{"a":1,"b":[2,1]}'), "body:", id="order of items"),
        pytest.param(replace(GOOD, body='{"a": 1,"b":[1,2]}'), "body:", id="a blank"),
        pytest.param(replace(GOOD, body=""), "body:", id="no body"),
        pytest.param(Response(status=0, reason="TimeoutError"), "Kraal did not respond", id="no answer"),
    ],
)
def test_every_difference_is_a_fault(other: Response, begin: str) -> None:
    faults = verdict(GOOD, other).faults
    assert faults[0].startswith(begin)


def test_allowed_difference_is_no_fault_and_reports_its_row() -> None:
    assert verdict(REFUSED, REFUSED_BETTER, allow.error("row", 500, 400)) == Verdict((), frozenset({"row"}))


@pytest.mark.parametrize(
    ("java", "kraal", "allowance"),
    [
        pytest.param(REFUSED, GOOD, allow.error("row", 500, 200), id="one does not refuse"),
        pytest.param(REFUSED, REFUSED_BETTER, allow.error("row", 500, 404), id="another status"),
        pytest.param(
            REFUSED,
            replace(REFUSED_BETTER, headers={"allow": "x"}),
            allow.error("row", 500, 400),
            id="a header as well",
        ),
        pytest.param(
            REFUSED,
            replace(REFUSED_BETTER, body='{"error_code":400,"message":""}'),
            allow.error("row", 500, 400),
            id="an error without a text",
        ),
        pytest.param(
            GOOD, replace(GOOD, status=202, body="x"), allow.status("row", 200, 202), id="a body as well"
        ),
        pytest.param(
            GOOD, replace(GOOD, body='{"a":2,"b":[9]}'), allow.fields("row", "a"), id="another field"
        ),
        pytest.param(
            GOOD, replace(GOOD, body='{"b":[1,2]}'), allow.fields("row", "a"), id="a field that is not there"
        ),
        pytest.param(
            GOOD,
            replace(GOOD, body='{"a":1,"b":[2,2]}'),
            allow.in_any_order("row", "b"),
            id="items are others",
        ),
        pytest.param(
            GOOD,
            replace(GOOD, body='{"a":1,"b":[2,1]}'),
            allow.in_any_order("row", "c"),
            id="order elsewhere",
        ),
        pytest.param(GOOD, replace(GOOD, headers={}), allow.header("row", "Location"), id="another header"),
        pytest.param(GOOD, REFUSED, allow.whole("row", 200, 400), id="wholly, but with another status"),
    ],
)
def test_allowance_does_not_cover_other_differences(
    java: Response, kraal: Response, allowance: Allowance
) -> None:
    assert verdict(java, kraal, allowance).faults != ()


def test_order_is_ignored_if_allowed() -> None:
    other = replace(GOOD, body='{"a":1,"b":[2,1]}')
    assert verdict(GOOD, other, allow.in_any_order("row", "b")) == Verdict((), frozenset({"row"}))


def test_unused_allowance_is_a_fault() -> None:
    assert verdict(GOOD, GOOD, allow.status("row", 200, 202)).faults == ("the row row is not needed here",)


def test_unused_chance_allowance_is_no_fault() -> None:
    assert verdict(GOOD, GOOD, allow.in_any_order("row", "b")) == Verdict((), frozenset())


def test_redundant_allowances_are_faults() -> None:
    both = allow.header("one", "Server"), allow.header("two", "Server")
    faults = verdict(GOOD, replace(GOOD, headers={**GOOD.headers, "server": "x"}), *both).faults
    assert faults == ("the row one is not needed here", "the row two is not needed here")


def test_concurrent_responses_are_compared_in_any_order() -> None:
    step = at_once("a step", [("GET /a", None), ("GET /b", None)])
    assert judge(step, [GOOD, REFUSED], [REFUSED, GOOD]).faults == ()
    assert judge(step, [GOOD, REFUSED], [REFUSED, REFUSED]).faults != ()


def test_random_outcomes_compare_only_statuses() -> None:
    step = at_once("a step", [("GET /a", None), ("GET /b", None)], among=(200,))
    assert judge(step, [GOOD, GOOD], [GOOD, replace(GOOD, body="x")]).faults == ()
    assert judge(step, [GOOD, GOOD], [GOOD, REFUSED]).faults == (f"Kraal: 500 {ERROR}",)


def test_random_outcomes_accept_500_of_a_connector_that_stops_from_java_only() -> None:
    step = at_once("a step", [("GET /a", None)], among=(200,))
    message = "Could not begin changing connector state as the connector has been scheduled for shutdown"
    stopping = replace(REFUSED, body=f'{{"error_code":500,"message":"{message}"}}')
    assert judge(step, [stopping], [GOOD]).faults == ()
    assert judge(step, [GOOD], [stopping]).faults == (f"Kraal: 500 {stopping.body}",)
    assert judge(step, [REFUSED], [GOOD]).faults == (f"Java: 500 {ERROR}",)
