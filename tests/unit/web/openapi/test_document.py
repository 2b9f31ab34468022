"""Tests that the OpenAPI document is valid and matches the route tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from starlette.routing import Route

from kraal.config.values import Password
from kraal.config.worker.basic_auth import BasicAuth
from kraal.plugins.registry import Registry
from tests.unit.web.api import Api, document
from web.resource import Resource
from web.settings import Settings
from web.ui.mount import DashboardMount

if TYPE_CHECKING:
    from starlette.applications import Starlette

SETTINGS = Settings(advertised_url="http://worker:8083/")
SECURED_SETTINGS = Settings(advertised_url="http://worker:8083/", basic_auth=BasicAuth({"a": Password("b")}))


def list_endpoints(app: Starlette) -> set[tuple[str, str]]:
    """Return the method and path of each endpoint, except for HEAD requests and the pages of the dashboard."""
    routes: set[tuple[str, str]] = set()
    for route in app.routes:
        if isinstance(route, DashboardMount):
            continue
        assert isinstance(route, Route)
        assert isinstance(route.app, Resource)
        routes |= {(method, route.path) for method in route.app.methods - {"HEAD"}}
    return routes


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


@pytest.mark.parametrize("has_separate_admin", [False, True])
def test_document_lists_exactly_the_served_endpoints(*, has_separate_admin: bool) -> None:
    settings = Settings(advertised_url="http://worker:8083/", has_separate_admin=has_separate_admin)
    documented_endpoints = {(method, path) for method, path, _ in operations(document(settings))}
    assert documented_endpoints == list_endpoints(Api(settings).app)


def test_separate_admin_listeners_serve_exactly_the_admin_paths() -> None:
    apps = Api(Settings(advertised_url="http://worker:8083/", has_separate_admin=True)).apps
    assert list_endpoints(apps.admin)
    assert all(path.startswith("/admin/") for _, path in list_endpoints(apps.admin))
    assert not any(path.startswith("/admin") for _, path in list_endpoints(apps.main))


def test_document_is_served_as_json() -> None:
    api = Api(SETTINGS)
    for method in ("GET", "HEAD"):
        response = api.client.request(method, "/openapi.json")
        assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert api.client.get("/openapi.json").json() == document(SETTINGS)
    assert api.client.put("/openapi.json").status_code == 405


def references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(target := value.get("$ref"), str):
            yield target
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.parametrize("settings", [SETTINGS, SECURED_SETTINGS], ids=["open", "secured"])
def test_references_operation_ids_tags_and_path_parameters_are_valid(settings: Settings) -> None:
    openapi = document(settings)
    schema_refs = {f"#/components/schemas/{name}" for name in openapi["components"]["schemas"]}
    assert set(references(openapi)) == schema_refs, (
        "every schema must be referenced, and every reference must resolve"
    )
    operation_ids = [operation["operationId"] for _, _, operation in operations(openapi)]
    assert len(set(operation_ids)) == len(operation_ids)
    tags = {tag["name"] for tag in openapi["tags"]}
    for _, path, operation in operations(openapi):
        assert set(operation["tags"]) <= tags
        parameter_names = [
            parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "path"
        ]
        assert parameter_names == re.findall(r"{(\w+)}", path)
        assert any(status.startswith("2") for status in operation["responses"])


def test_links_refer_to_operations_on_the_same_connector() -> None:
    openapi = document(SETTINGS)
    paths = {operation["operationId"]: path for _, path, operation in operations(openapi)}
    link_count = 0
    for _, path, operation in operations(openapi):
        for status, response in operation["responses"].items():
            for name, link in response.get("links", {}).items():
                name_expression = (
                    "$request.path.connector" if "{connector}" in path else "$response.body#/name"
                )
                assert link == {"operationId": name, "parameters": {"connector": name_expression}}
                assert re.findall(r"{(\w+)}", paths[name]) == ["connector"]
                assert status.startswith("2")
                link_count += 1
    assert link_count > 0


def test_schemas_allow_extra_logger_fields_and_require_an_offset() -> None:
    openapi = document(SETTINGS)
    body = openapi["paths"]["/admin/loggers/{logger}"]["put"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert matches(body, {"level": "INFO", "other": 1}, openapi)
    assert not matches(body, {"other": 1}, openapi)
    assert not matches(body, {"level": "INFO", "other": {}}, openapi)
    assert openapi["components"]["schemas"]["SentOffsets"]["properties"]["offsets"]["minItems"] == 1


def test_document_describes_basic_authentication_if_configured() -> None:
    assert "security" not in document(SETTINGS)
    openapi = document(SECURED_SETTINGS)
    assert openapi["security"] == [{"password": []}]
    for method, path, operation in operations(openapi):
        is_internal = (method, path) in {
            ("POST", "/connectors/{connector}/tasks"),
            ("PUT", "/connectors/{connector}/fence"),
        }
        assert (operation.get("security") == []) is is_internal
        assert ("401" in operation["responses"]) is not is_internal


def matches(schema: dict[str, Any], value: object, document: dict[str, Any]) -> bool:
    """Return whether a value matches a schema, and has the fields in the order of the schema.

    Supports only the parts of JSON Schema that the document uses.
    """
    if "$ref" in schema:
        return matches(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], value, document)
    if "anyOf" in schema:
        return any(matches(alternative, value, document) for alternative in schema["anyOf"])
    python_types: dict[str, type | tuple[type, ...]] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(isinstance(value, python_types[type_name]) for type_name in types):
        return False
    if isinstance(value, list):
        return all(matches(schema["items"], item, document) for item in value)
    if not isinstance(value, dict) or not {"properties", "additionalProperties"} & set(schema):
        return "enum" not in schema or value in schema["enum"]
    fields, additional = schema.get("properties", {}), schema["additionalProperties"]
    expected_order = [name for name in fields if name in value]
    return (
        [name for name in value if name in fields] == expected_order
        and set(schema.get("required", [])) <= set(value)
        and all(
            matches(fields[name], item, document)
            if name in fields
            else (additional is not False and matches(additional, item, document))
            for name, item in value.items()
        )
    )


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/", None),
        ("GET", "/health", None),
        ("GET", "/connectors", None),
        ("GET", "/connectors?expand=status&expand=info", None),
        ("POST", "/connectors", '{"name":"new","config":{"a":1}}'),
        ("POST", "/connectors", '{"name":"one","config":{}}'),
        ("GET", "/connectors/one", None),
        ("GET", "/connectors/none", None),
        ("GET", "/connectors/one/config", None),
        ("PUT", "/connectors/one/config", '{"a":true}'),
        ("PUT", "/connectors/one/config", "[]"),
        ("GET", "/connectors/one/status", None),
        ("GET", "/connectors/one/plugins", None),
        ("GET", "/connectors/none/plugins", None),
        ("GET", "/connectors/one/tasks", None),
        ("GET", "/connectors/one/tasks/0/status", None),
        ("GET", "/connectors/one/topics", None),
        ("PUT", "/connectors/one/pause", None),
        ("POST", "/connectors/one/restart", None),
        ("GET", "/connector-plugins?connectorsOnly=false", None),
        ("GET", "/connector-plugins/FileStreamSource/config", None),
        ("GET", "/connector-plugins/Nothing/config", None),
        ("PUT", "/connector-plugins/x/config/validate", "{}"),
        ("GET", "/openapi.json", None),
        ("GET", "/admin/assignments", None),
    ],
)
def test_responses_match_the_document(method: str, path: str, body: str | None) -> None:
    api = Api(SETTINGS, Registry.load())
    api.herder.put("one", {"k": "v"}, tasks=2, topics=frozenset({"t"}))
    api.herder.publish(is_leader=True)
    response = api.client.request(method, path, content=body, headers={"Content-Type": "application/json"})
    openapi = document(SETTINGS)
    plain_path = path.partition("?")[0]
    (responses,) = [
        operation["responses"]
        for template_method, template, operation in operations(openapi)
        if template_method == method
        and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template).replace(".", r"\."), plain_path)
    ]
    content = responses[str(response.status_code)].get("content")
    if content is None:
        assert response.content == b""
    else:
        assert matches(content["application/json"]["schema"], response.json(), openapi), response.text
