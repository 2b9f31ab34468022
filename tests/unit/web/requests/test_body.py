"""Tests for the parsing of request bodies, and for the errors that invalid bodies cause."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from actors.messages import herder as messages
from kraal.core.ids import ConnectorName
from tests.unit.web.api import Api
from web.settings import Settings

MUST_BE_SCALAR = "must be a string, number, boolean or null, but is"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "The request body is empty; it must be a JSON object"),
        (" \n", "The request body is empty; it must be a JSON object"),
        ('{"name":', "The request body is not JSON: Expecting value (line 1, column 9)"),
        (
            '{"name":"a",\n"config":{}} x',
            "The request body is not JSON: Extra data (line 2, column 14)",
        ),
        (
            '{"config":{"a":NaN}}',
            "The request body is not JSON: NaN is not a JSON number",
        ),
        (b'{"name":"\xff"}', "The request body is not UTF-8 at byte 10"),
        ("[" * 100_000, "The request body is nested too deeply"),
        ("null", "The request body must be a JSON object, but is null"),
        ("[]", "The request body must be a JSON object, but is an array"),
        ('"x"', "The request body must be a JSON object, but is a string"),
        ("1", "The request body must be a JSON object, but is a number"),
        ("true", "The request body must be a JSON object, but is a boolean"),
        (
            '{"name":"a","config":{},"x\\"":1}',
            'Unknown field "x\\"" in the request body; its fields are name, config, initial_state, initial_offsets',
        ),
        ('{"name":"a"}', "Field config is missing in the request body; it must be an object"),
        (
            '{"name":"a","config":null}',
            "Field config is missing in the request body; it must be an object",
        ),
        ('{"name":"a","config":"x"}', "Field config must be a JSON object, but is a string"),
        ('{"name":{},"config":{}}', f"Field name {MUST_BE_SCALAR} an object"),
        ('{"name":"a","config":{"b":{}}}', f"Value of config key b {MUST_BE_SCALAR} an object"),
        ('{"name":"a","config":{"b":[1]}}', f"Value of config key b {MUST_BE_SCALAR} an array"),
        (
            '{"name":"a","config":{"b":"\\ud800"}}',
            'Value of config key b contains an unpaired surrogate: "\\ud800"',
        ),
        ('{"name":"a","config":{"\\udfff":""}}', 'A key contains an unpaired surrogate: "\\udfff"'),
        ('{"name":"a","config":{},"initial_state":[]}', f"Field initial_state {MUST_BE_SCALAR} an array"),
        (
            '{"name":"a","config":{},"initial_state":"x"}',
            "Invalid value x for initial_state: it must be one of RUNNING, PAUSED, STOPPED (in any letter case).",
        ),
        (
            '{"name":"a","config":{},"initial_state":1}',
            "Invalid value 1 for initial_state: it must be one of RUNNING, PAUSED, STOPPED (in any letter case).",
        ),
    ],
)
def test_invalid_create_request_is_a_bad_request(api: Api, body: str | bytes, message: str) -> None:
    code, text = api.request("POST", "/connectors", body)
    assert json.loads(text) == {"error_code": 400, "message": message}
    assert code == 400
    assert api.herder.requests == []


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "The request body is empty; it must be a JSON object"),
        ("[]", "The request body must be a JSON object, but is an array"),
        ('{"a":[]}', f"Value of config key a {MUST_BE_SCALAR} an array"),
    ],
)
def test_invalid_config_is_a_bad_request(api: Api, method: str, body: str, message: str) -> None:
    code, text = api.request(method, "/connectors/a/config", body)
    assert (code, json.loads(text)["message"]) == (400, message)


def test_missing_body_is_a_bad_request(api: Api) -> None:
    response = api.client.put("/connectors/a/config")
    assert response.status_code == 400
    assert response.json()["message"] == "The request body is empty; it must be a JSON object"


def test_config_values_are_kept_as_written(api: Api) -> None:
    api.request(
        "PUT",
        "/connectors/a/config",
        '{"i":1,"f":1.50,"e":1e3,"l":1E400,"z":-0.0,"b":true,"c":false,"n":null,"u":"é😀\\ud83d\\ude00",'
        '"big":123456789012345678901234567890,"":"","twice":"x","twice":"y"}',
    )
    config = {
        "i": "1",
        "f": "1.50",
        "e": "1e3",
        "l": "1E400",
        "z": "-0.0",
        "b": "true",
        "c": "false",
        "n": None,
        "u": "é😀😀",
        "big": "123456789012345678901234567890",
        "": "",
        "twice": "y",
    }
    assert api.herder.requests == [messages.PutConfig(name=ConnectorName("a"), config=config)]
    request = api.herder.requests[0]
    assert isinstance(request, messages.PutConfig)
    assert list(request.config) == list(config)
    assert all(value is None or type(value) is str for value in request.config.values())


@pytest.mark.parametrize(
    ("name", "trimmed_name"),
    [("1", "1"), ("true", "true"), ("null", ""), ('"\\t a \\u0000"', "a"), ('"\\u00a0"', "\u00a0")],
)
def test_name_is_trimmed_as_in_java(api: Api, name: str, trimmed_name: str) -> None:
    api.request("POST", "/connectors", f'{{"name":{name},"config":{{}}}}')
    assert api.herder.requests == [messages.CreateConnector(name=ConnectorName(trimmed_name), config={})]


def test_byte_order_mark_is_skipped(api: Api) -> None:
    assert api.request("PUT", "/connectors/a/config", b'\xef\xbb\xbf{"a":1}')[0] == 201


@pytest.mark.parametrize("has_content_length", [True, False])
def test_body_above_the_limit_is_rejected(*, has_content_length: bool) -> None:
    api = Api(Settings(advertised_url="http://x/", max_body_bytes=100))
    sent_chunks = []

    def chunks() -> Iterator[bytes]:
        for number in range(1000):
            sent_chunks.append(number)
            yield b"x" * 50

    body = b"x" * 101 if has_content_length else chunks()
    response = api.client.put(
        "/connectors/a/config", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 413
    assert (
        response.json()["message"] == "The request body is larger than the 100 bytes that this worker accepts"
    )
    assert response.headers["Connection"] == "close"


def test_body_at_the_limit_is_accepted() -> None:
    body = '{"a":"x"}'
    api = Api(Settings(advertised_url="http://x/", max_body_bytes=len(body)))
    assert api.request("PUT", "/connectors/a/config", body)[0] == 201


@pytest.mark.parametrize("content_type", ["application/json", "Application/JSON; charset=utf-8"])
def test_json_content_types_are_accepted(api: Api, content_type: str) -> None:
    assert api.request("PUT", "/connectors/a/config", "{}", Content_Type=content_type)[0] == 201


def test_body_of_a_command_is_ignored(api: Api) -> None:
    api.herder.put("a", {})
    assert api.request("PUT", "/connectors/a/pause", "no json") == (202, "")
