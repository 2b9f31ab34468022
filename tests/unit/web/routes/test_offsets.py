"""Tests for `/connectors/{c}/offsets`: bodies, responses, and messages to the herder (KIP-875)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowLags, ShowOffsets
from kraal.core.errors import NotFound, RetryableConflict
from kraal.core.ids import ConnectorName
from tests.unit.web.api import Api
from tests.unit.web.workers import Worker, set_leader

NO_OFFSETS_ERROR = "Partitions / offsets need to be provided for an alter offsets request"
X = ConnectorName("x y")
PATH = "/connectors/x%20y/offsets"


def error(code: int, message: str) -> tuple[int, str]:
    return code, json.dumps({"error_code": code, "message": message}, separators=(",", ":"))


def test_get_returns_the_offsets_of_the_herder(api: Api) -> None:
    api.herder.offsets = [
        ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5}),
        ({"file": "é"}, {"position": 1.5, "whole": None}),
    ]
    expected = (
        '{"offsets":[{"partition":{"kafka_topic":"t","kafka_partition":0},"offset":{"kafka_offset":5}},'
        '{"partition":{"file":"é"},"offset":{"position":1.5,"whole":null}}]}'
    )
    assert api.request("GET", PATH) == (200, expected)
    assert api.herder.requests == [ShowOffsets(name=X)]


def test_sink_offsets_include_the_lag(api: Api) -> None:
    api.herder.offsets = [({"kafka_topic": "t", "kafka_partition": n}, {"kafka_offset": 5}) for n in (0, 1)]
    api.herder.lags = [7, None]
    expected = (
        '{"offsets":[{"partition":{"kafka_topic":"t","kafka_partition":0},"offset":{"kafka_offset":5},"lag":7},'
        '{"partition":{"kafka_topic":"t","kafka_partition":1},"offset":{"kafka_offset":5},"lag":null}]}'
    )
    assert api.request("GET", f"{PATH}?expand=age&expand=lag") == (200, expected)
    assert api.herder.requests == [ShowLags(name=X)]


def test_source_offsets_have_no_lag(api: Api) -> None:
    api.herder.offsets = [({"file": "f"}, {"position": 1})]
    expected = '{"offsets":[{"partition":{"file":"f"},"offset":{"position":1}}]}'
    assert api.request("GET", f"{PATH}?expand=lag") == (200, expected)
    assert api.request("GET", f"{PATH}?expand=age") == (200, expected)


def test_get_returns_200_for_empty_offsets(api: Api) -> None:
    assert api.request("GET", PATH) == (200, '{"offsets":[]}')


def test_get_of_an_unknown_connector_returns_404(api: Api) -> None:
    api.herder.error = NotFound("Connector x y not found")
    assert api.request("GET", PATH) == error(404, "Connector x y not found")


@pytest.mark.parametrize("body", ["{}", '{"offsets":null}', '{"offsets":[]}'])
def test_patch_without_offsets_returns_400_without_a_message_to_the_herder(api: Api, body: str) -> None:
    assert api.request("PATCH", PATH, body) == error(400, NO_OFFSETS_ERROR)
    assert api.herder.requests == []


def test_patch_and_delete_return_a_message(api: Api) -> None:
    body = (
        '{"offsets":[{"partition":{"a":1,"b":[1.5,{"c":"10"}]},"offset":null},{"offset":{"p":2E1,"q":true}}]}'
    )
    assert api.request("PATCH", PATH, body) == (200, '{"message":"altered"}')
    assert api.request("DELETE", PATH) == (200, '{"message":"reset"}')
    partition: dict[str, Any] = {"a": 1, "b": [1.5, {"c": "10"}]}
    assert api.herder.requests == [
        AlterOffsets(name=X, offsets=[(partition, None), (None, {"p": 20.0, "q": True})]),
        ResetOffsets(name=X),
    ]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "The request body is empty; it must be a JSON object"),
        ("[]", "The request body must be a JSON object, but is an array"),
        ('{"offset":[]}', 'Unknown field "offset" in the request body; its fields are offsets'),
        ('{"offsets":{}}', "Field offsets must be a JSON array, but is an object"),
        ('{"offsets":[{}, 1]}', "Offsets[1] must be a JSON object, but is a number"),
        ('{"offsets":[null]}', "Offsets[0] must be a JSON object, but is null"),
        ('{"offsets":[{"x":1}]}', 'Unknown field "x" in offsets[0]; its fields are partition, offset'),
        (
            '{"offsets":[{"partition":"p"}]}',
            "Field partition of offsets[0] must be a JSON object, but is a string",
        ),
        (
            '{"offsets":[{"partition":{},"offset":3}]}',
            "Field offset of offsets[0] must be a JSON object, but is a number",
        ),
        ('{"offsets":[{"partition":{"a":1E999}}]}', "A number in offsets[0] is too large: 1E999"),
        (
            '{"offsets":[{"partition":{"a":' + "9" * 1001 + "}}]}",
            "A number in offsets[0] is too long: it has 1001 characters",
        ),
        (
            '{"offsets":[{"partition":{"\\ud800":1}}]}',
            'A key in offsets[0] contains an unpaired surrogate: "\\ud800"',
        ),
        (
            '{"offsets":[{"partition":{"a":"\\ud800"}}]}',
            'A string in offsets[0] contains an unpaired surrogate: "\\ud800"',
        ),
        (
            '{"offsets":[{"partition":{"a":' + '[{"b":' * 60 + "1" + "}]" * 60 + "}}]}",
            "A value in offsets[0] is nested too deeply: more than 100 levels",
        ),
        (
            '{"offsets":[{"partition":{"a":' + "[" * 700 + "]" * 700 + "}}]}",
            "A value in offsets[0] is nested too deeply: more than 100 levels",
        ),
    ],
)
def test_invalid_body_returns_400_with_the_cause(api: Api, body: str, text: str) -> None:
    assert api.request("PATCH", PATH, body, Content_Type="application/json") == error(400, text)
    assert api.herder.requests == []


def test_pending_rebalance_returns_409_with_retry_after(api: Api) -> None:
    api.herder.error = RetryableConflict("momentarily")
    for method, body in (("PATCH", '{"offsets":[{"partition":{},"offset":null}]}'), ("DELETE", None)):
        response = api.client.request(
            method, PATH, content=body, headers={"Content-Type": "application/json"} if body else {}
        )
        assert (response.status_code, response.headers["Retry-After"]) == (409, "1")


def test_patch_and_delete_are_forwarded_and_get_is_not(follower: Worker, leader: Worker) -> None:
    set_leader(follower, leader.url)
    body = '{"offsets": [{"partition": {"a": 1}, "offset": {"p": 12345678901234567890}}]}'
    assert follower.ask("PATCH", PATH, body).json() == {"message": "altered"}
    assert follower.ask("DELETE", PATH).json() == {"message": "reset"}
    assert leader.api.herder.requests == [
        AlterOffsets(name=X, offsets=[({"a": 1}, {"p": 12345678901234567890})]),
        ResetOffsets(name=X),
    ]
    follower.api.herder.error = None
    assert follower.ask("GET", PATH).json() == {"offsets": []}
    assert len(leader.api.herder.requests) == 2
