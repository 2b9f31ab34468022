"""Tests for `/connector-plugins` and `/connectors/{c}/plugins`."""

from __future__ import annotations

import json
import threading

import pytest

from kraal.core.errors import BadRequest, KraalError
from kraal.plugins.entries import PluginKind
from kraal.plugins.validation.infos import ConfigInfo, ConfigInfos, ConfigValueInfo
from tests.unit.plugins.shipped import registry as shipped
from tests.unit.web.api import Api
from web.settings import Settings

SETTINGS = Settings(advertised_url="http://worker:8083/")


def test_connectors_are_listed_without_other_plugins() -> None:
    response = Api(SETTINGS, shipped()).client.get("/connector-plugins")
    assert response.status_code == 200
    assert [plugin["type"] for plugin in response.json()] == ["sink", "source"]
    assert list(response.json()[0]) == ["class", "type", "version"]


@pytest.mark.parametrize(
    ("query", "lists_all_types"),
    [
        ("connectorsOnly=true", False),
        ("connectorsOnly=TRUE", False),
        ("connectorsOnly=false", True),
        ("connectorsOnly=", False),
    ],
)
def test_only_connectors_only_false_lists_all_plugins(query: str, *, lists_all_types: bool) -> None:
    plugins = Api(SETTINGS, shipped()).client.get(f"/connector-plugins?{query}").json()
    assert ("converter" in {plugin["type"] for plugin in plugins}) is lists_all_types


def test_plugin_runtime_is_listed_on_request() -> None:
    java = ((PluginKind.SINK,), shipped().connector_class("FileStreamSink"))
    registry = shipped().with_java({"x.JavaSink": [java]})
    plugins = (
        Api(SETTINGS, registry).client.get("/connector-plugins?connectorsOnly=false&expand=runtime").json()
    )
    assert {plugin["runtime"] for plugin in plugins if plugin["class"] != "x.JavaSink"} == {"python"}
    assert [plugin["runtime"] for plugin in plugins if plugin["class"] == "x.JavaSink"] == ["java"]


def test_unknown_plugin_version_is_omitted() -> None:
    plugin_class = type(
        "Unversioned", (shipped().connector_class("FileStreamSink"),), {"version": "undefined"}
    )
    registry = shipped().with_java({"x.Unversioned": [((PluginKind.SINK,), plugin_class)]})
    api = Api(SETTINGS, registry)
    plugins = [
        plugin for plugin in api.client.get("/connector-plugins").json() if plugin["class"] == "x.Unversioned"
    ]
    assert plugins == [{"class": "x.Unversioned", "type": "sink"}]
    api.herder.put("one", {"connector.class": "x.Unversioned"})
    assert api.client.get("/connectors/one/plugins").json()[0]["version"] is None


def test_plugins_of_a_connector_are_listed() -> None:
    api = Api(SETTINGS, shipped())
    api.herder.put("one", {"connector.class": "FileStreamSource", "key.converter": "StringConverter"})
    assert api.client.get("/connectors/one/plugins").json() == [
        {
            "part": "connector",
            "class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "version": api.client.get("/connector-plugins").json()[1]["version"],
            "runtime": "python",
        },
        {
            "part": "key.converter",
            "class": "org.apache.kafka.connect.storage.StringConverter",
            "version": "4.4.0",
            "runtime": "python",
        },
    ]
    assert api.client.get("/connectors/none/plugins").status_code == 404


def test_plugin_is_described_by_alias_or_name() -> None:
    api = Api(SETTINGS, shipped())
    by_alias = api.client.get("/connector-plugins/FileStreamSource/config")
    assert by_alias.status_code == 200
    by_name = api.client.get(
        "/connector-plugins/org.apache.kafka.connect.file.FileStreamSourceConnector/config"
    )
    assert by_name.text == by_alias.text
    assert "topic" in {key["name"] for key in by_alias.json()}


def test_validate_returns_200_despite_errors(api: Api) -> None:
    value = ConfigValueInfo(name="a", value=None, recommended_values=(), errors=("é bad",), visible=True)
    api.infos = ConfigInfos(
        name="x", error_count=1, groups=("G",), configs=(ConfigInfo(definition=None, value=value),)
    )
    assert api.request("PUT", "/connector-plugins/My%2FPlugin/config/validate", '{"a":1,"b":null}') == (
        200,
        (
            '{"name":"x","error_count":1,"groups":["G"],"configs":[{"definition":null,"value":'
            '{"name":"a","value":null,"recommended_values":[],"errors":["é bad"],"visible":true}}]}'
        ),
    )
    assert api.validated_configs == [("My/Plugin", {"a": "1", "b": None})]


@pytest.mark.parametrize(
    ("error", "code"),
    [(BadRequest("does not match"), 400), (KraalError("x: no class"), 500), (OSError("disk"), 500)],
)
def test_validation_exceptions_become_error_responses(api: Api, error: Exception, code: int) -> None:
    api.validation_error = error
    status, text = api.request("PUT", "/connector-plugins/x/config/validate", "{}")
    assert (status, json.loads(text)) == (code, {"error_code": code, "message": str(error)})


def test_blocking_plugin_does_not_block_other_requests() -> None:
    api = Api(Settings(advertised_url="http://worker:8083/", request_timeout_s=2.0))
    validation_started, release = threading.Event(), threading.Event()

    def block() -> None:
        validation_started.set()
        release.wait(30)

    api.before_validation = block
    responses: list[tuple[int, str]] = []

    def validate() -> None:
        responses.append(api.request("PUT", "/connector-plugins/x/config/validate", "{}"))

    with api.client:  # all requests share one event loop
        thread = threading.Thread(target=validate)
        thread.start()
        assert validation_started.wait(10)
        assert api.client.get("/connectors").status_code == 200
        thread.join(10)
        release.set()
    assert responses == [(500, '{"error_code":500,"message":"Request timed out"}')]
