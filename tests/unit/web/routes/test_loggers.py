"""Tests for `/admin/loggers`. Source: LoggingResource (Kafka 4.3.0), KIP-495, KIP-976."""

from __future__ import annotations

import json
import logging

import pytest

from actors.messages.herder import SetLoggerLevel
from kraal.core.errors import StoreError
from kraal.core.log_levels import Loggers
from tests.unit.web.api import Api
from web.settings import Settings

PATH = "/admin/loggers"
DEBUG_BODY = '{"level": "DEBUG"}'


@pytest.fixture
def api() -> Api:
    """Return an API with a separate logger hierarchy: root (WARN), kraal (INFO), kraal.engine and other."""
    root = logging.RootLogger(logging.WARNING)
    manager = root.manager = logging.Manager(root)
    manager.getLogger("kraal").setLevel(logging.INFO)
    for name in ("kraal.engine", "other"):
        manager.getLogger(name)
    return Api(Settings(advertised_url="http://worker:8083/"), loggers=Loggers(root, lambda: 1_700))


def test_loggers_are_listed_with_levels(api: Api) -> None:
    status, text = api.request("GET", PATH)
    assert status == 200
    assert text == (
        '{"kraal":{"level":"INFO","last_modified":null},'
        '"kraal.engine":{"level":"INFO","last_modified":null},'
        '"other":{"level":"WARN","last_modified":null},'
        '"root":{"level":"WARN","last_modified":null}}'
    )


def test_logger_level_is_returned(api: Api) -> None:
    assert api.request("GET", f"{PATH}/kraal.spark") == (200, '{"level":"INFO","last_modified":null}')
    assert api.request("GET", f"{PATH}/Root") == (200, '{"level":"WARN","last_modified":null}')


@pytest.mark.parametrize(("path", "name"), [("nobody", "nobody"), ("a%2Fb", "a/b"), ("%20", " ")])
def test_unknown_logger_is_not_found(api: Api, path: str, name: str) -> None:
    assert api.request("GET", f"{PATH}/{path}") == (
        404,
        f'{{"error_code":404,"message":"Logger {name} not found."}}',
    )


@pytest.mark.parametrize("query", ["", "?scope=worker", "?scope=WORKER", "?other=cluster"])
def test_level_is_set_on_this_worker(api: Api, query: str) -> None:
    assert api.request("PUT", f"{PATH}/kraal{query}", DEBUG_BODY) == (200, '["kraal","kraal.engine"]')
    assert api.request("GET", f"{PATH}/kraal.spark") == (200, '{"level":"DEBUG","last_modified":1700}')
    assert api.request("PUT", f"{PATH}/kraal{query}", '{"level": "debug"}') == (200, "[]")
    assert api.herder.requests == []


def test_unknown_scope_applies_to_this_worker_with_a_warning(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "web.routes.loggers"):
        assert api.request("PUT", f"{PATH}/other?scope=galaxy", DEBUG_BODY) == (200, '["other"]')
    assert [r.getMessage() for r in caplog.records if r.name == "web.routes.loggers"] == [
        "Received invalid scope 'galaxy' in request to adjust logging level; will default to worker"
    ]


@pytest.mark.parametrize("scope", ["cluster", "Cluster"])
def test_cluster_level_is_sent_to_the_herder(api: Api, scope: str) -> None:
    assert api.request("PUT", f"{PATH}/kraal?scope={scope}", '{"level": "debug"}') == (204, "")
    assert api.herder.requests == [SetLoggerLevel(namespace="kraal", level="debug")]
    assert api.request("GET", f"{PATH}/kraal") == (200, '{"level":"INFO","last_modified":null}')


def test_failed_level_write_is_an_error(api: Api) -> None:
    api.herder.error = StoreError("Error writing logger level to Kafka")
    assert api.request("PUT", f"{PATH}/kraal?scope=cluster", DEBUG_BODY) == (
        500,
        '{"error_code":500,"message":"Error writing logger level to Kafka"}',
    )


@pytest.mark.parametrize("scope", ["worker", "cluster"])
@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{}", 400, "Desired 'level' parameter was not specified in request."),
        ('{"level": null}', 400, "Desired 'level' parameter was not specified in request."),
        ('{"Level": "INFO"}', 400, "Desired 'level' parameter was not specified in request."),
        ('{"level": "loud"}', 404, "invalid log level 'loud'."),
        ('{"level": ""}', 404, "invalid log level ''."),
        ('{"level": 10}', 404, "invalid log level '10'."),
        ("[]", 400, "The request body must be a JSON object, but is an array"),
        (
            '{"level": []}',
            400,
            "Value of config key level must be a string, number, boolean or null, but is an array",
        ),
        ("", 400, "The request body is empty; it must be a JSON object"),
    ],
)
def test_missing_or_invalid_level_is_rejected(
    api: Api, scope: str, body: str, status: int, message: str
) -> None:
    response = api.client.put(
        f"{PATH}/kraal?scope={scope}", content=body, headers={"Content-Type": "application/json"}
    )
    assert (response.status_code, response.json()) == (status, {"error_code": status, "message": message})
    assert api.herder.requests == []
    assert api.request("GET", f"{PATH}/kraal")[1] == '{"level":"INFO","last_modified":null}'


def test_other_methods_and_content_types_are_rejected(api: Api) -> None:
    assert api.request("POST", PATH)[0] == 405
    assert api.request("DELETE", f"{PATH}/kraal")[0] == 405
    assert api.request("PUT", f"{PATH}/kraal", DEBUG_BODY, Content_Type="text/plain")[0] == 415
    assert api.client.options(f"{PATH}/kraal").headers["Allow"] == "HEAD,GET,OPTIONS,PUT"
    assert api.client.options(PATH).headers["Allow"] == "HEAD,GET,OPTIONS"


def test_trailing_slash_is_ignored(api: Api) -> None:
    assert api.request("GET", f"{PATH}/") == api.request("GET", PATH)


def test_length_of_a_logger_name_is_limited(api: Api) -> None:
    """Python keeps a placeholder for each dotted part of a logger name, so unlimited names would exhaust memory."""
    levels = api.request("GET", PATH)
    text = "The logger's name has 1001 characters; the maximum is 1000."
    for query in ("", "?scope=cluster"):
        status, error_body = api.request("PUT", f"{PATH}/{'a.' * 500}a{query}", DEBUG_BODY)
        assert (status, json.loads(error_body)["message"]) == (400, text)
    assert api.request("GET", PATH) == levels
    assert api.herder.requests == []
    assert api.request("PUT", f"{PATH}/{'a' * 1000}", DEBUG_BODY)[0] == 200
