"""Tests for `response.http.headers.config`. The messages and cases are from RestServerConfigTest."""

from __future__ import annotations

import pytest

from kraal.config.worker.response_headers import HeaderRule, check_header_rules, parse_header_rules, sets_date

KEY = "response.http.headers.config"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("  ", [], id="blank"),
        pytest.param("add X-A: $c", [HeaderRule("X-A", "$c", add=True)], id="one rule"),
        pytest.param(
            "add \t Cache-Control: no-cache,set Location:a",
            [HeaderRule("Cache-Control", "no-cache", add=True), HeaderRule("Location", "a", add=False)],
            id="two rules",
        ),
        pytest.param(
            ' "add Cache-Control: no-cache, no-store" ignored , set X-B:"q"',
            [
                HeaderRule("Cache-Control", "no-cache, no-store", add=True),
                HeaderRule("X-B", '"q"', add=False),
            ],
            id="quoted for its comma",
        ),
        pytest.param(
            '"set X-C: a\\"b\\\\c', [HeaderRule("X-C", 'a"b\\c', add=False)], id="escapes, no closing quote"
        ),
        pytest.param(
            "setDate Expires: 31540000000,ADDDATE Last-Modified: -1",
            [
                HeaderRule("Expires", "31540000000", add=False, offset_ms=31_540_000_000),
                HeaderRule("Last-Modified", "-1", add=True, offset_ms=-1),
            ],
            id="dates",
        ),
        pytest.param("set X-D:a:", [HeaderRule("X-D", "a:", add=False)], id="a colon at the end, as in Java"),
        pytest.param("set X-E: 1, ", [HeaderRule("X-E", "1", add=False)], id="a comma at the end"),
    ],
)
def test_rules_are_parsed_like_jetty(text: str, rules: list[HeaderRule]) -> None:
    assert list(parse_header_rules(text)) == rules
    assert check_header_rules(KEY, text) is None


FORMAT_ERROR = "Invalid format of header config '{}'. Expected: '[action] [header name]:[header value]'"
PAIR_ERROR = (
    "Invalid format of header name and header value pair '{}'. Expected: '[header name]:[header value]'"
)
ACTION_ERROR = "Invalid header config action: '{}'. Expected one of [set, add, setDate, addDate]"
BLANK_IN_NAME_ERROR = "Invalid header name '{}'. The '[header name]' cannot contain whitespace"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("set add X-XSS-Protection: 1", BLANK_IN_NAME_ERROR.format("add X-XSS-Protection")),
        ("addX-XSS-Protection", FORMAT_ERROR.format("addX-XSS-Protection")),
        ("X-XSS-Protection:", FORMAT_ERROR.format("X-XSS-Protection:")),
        ("add set X-XSS-Protection: 1", BLANK_IN_NAME_ERROR.format("set X-XSS-Protection")),
        (
            "add X-XSS-Protection:1 X-XSS-Protection:1 ",
            PAIR_ERROR.format("X-XSS-Protection:1 X-XSS-Protection:1"),
        ),
        ("add X-XSS-Protection", PAIR_ERROR.format("X-XSS-Protection")),
        ("set X-XSS-Protection:", PAIR_ERROR.format("X-XSS-Protection:")),
        ("set X-Url: http://a", PAIR_ERROR.format("X-Url: http://a")),
        ("adds X-XSS-Protection: 1", ACTION_ERROR.format("adds")),
        ("set  : v", BLANK_IN_NAME_ERROR.format("")),
        ("set a:b,,set c:d", FORMAT_ERROR.format("")),
        (
            "setDate Expires: soon",
            "Invalid value 'soon' of header Expires. A date is a whole number of milliseconds from now",
        ),
        ("set X(Y): 1", "Invalid header name 'X(Y)'. It has a character that HTTP does not allow"),
        ("set Content-Length: 1", "Invalid header name 'Content-Length'. This header belongs to the server"),
        (
            "set X-A: a\u20ac",
            "Invalid value 'a\u20ac' of header X-A. It has a character that HTTP does not allow",
        ),
    ],
)
def test_invalid_rules_have_connects_error(text: str, error: str) -> None:
    assert check_header_rules(KEY, text) == error


def test_sets_date_detects_rules_that_replace_the_date_header() -> None:
    assert sets_date(parse_header_rules("setDate date: 0"))
    assert not sets_date(parse_header_rules("addDate Date: 0,set X-Date: 0"))
