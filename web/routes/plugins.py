"""`/connector-plugins`: installed plugins, their config keys, validation of configs, and a connector's plugins.

These endpoints may import or run plugin code, so they run on dedicated threads instead of the event loop.
Source: ConnectorPluginsResource (Kafka 4.4.0); KIP-769.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kraal.cluster.views import rest as view
from kraal.plugins.connector_parts import list_parts
from kraal.plugins.entries import PluginInfo
from kraal.plugins.registry import Registry
from kraal.plugins.validation.validate import describe_plugin
from web.middleware.admission import LimitedResource
from web.openapi.operation import Operation, Query
from web.openapi.shapes import TEXT, list_of, ref
from web.rendering import json_response
from web.requests.blocking_calls import BlockingCalls
from web.requests.body import parse_config, read_body
from web.requests.paths import connector_name, is_true, plugin_name
from web.resource import Endpoint, endpoint, live_snapshot
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_PLUGINS_PATH: Final = "/connector-plugins"
_RUNTIME: Final = "runtime"
_CONFIG_PATH: Final = f"{_PLUGINS_PATH}/{{plugin}}/config"


def endpoints(services: Services) -> list[Endpoint]:
    """Return the plugin endpoints, which share a thread pool."""
    threads = BlockingCalls(services, LimitedResource.PLUGINS, services.settings.plugin_threads)
    return [_list(threads), _describe(threads), _validate(threads), _connector_parts(threads)]


def _list(threads: BlockingCalls) -> Endpoint:
    """Return the endpoint GET /connector-plugins."""

    @endpoint(
        "GET",
        _PLUGINS_PATH,
        Operation(
            name="listPlugins",
            tag="plugins",
            summary="List the plugins of this worker",
            query=(
                Query(
                    name="connectorsOnly",
                    description="List connectors only.",
                    schema={"type": "boolean", "default": True},
                ),
                Query(
                    name="expand",
                    description="`runtime` adds the runtime of each plugin: `java` or `python`.",
                    schema={"type": "string", "enum": [_RUNTIME]},
                ),
            ),
            responses={200: list_of(ref("PluginInfo"))},
            errors=(503,),
        ),
    )
    async def get(services: Services, request: Request) -> Response:
        connectors_only = is_true(request, "connectorsOnly", default=True)
        with_runtime = _RUNTIME in request.query_params.getlist("expand")
        plugins = await threads.run(
            lambda: _plugin_infos(
                services.registry, connectors_only=connectors_only, with_runtime=with_runtime
            )
        )
        return json_response(plugins)

    return get


def _plugin_infos(registry: Registry, *, connectors_only: bool, with_runtime: bool) -> list[dict[str, Any]]:
    """Return the plugins without duplicates (same class, type and version)."""
    plugins = {
        (plugin.name, plugin.kind, plugin.version): plugin
        for plugin in registry.plugins(connectors_only=connectors_only)
    }
    if not with_runtime:
        return [_plugin_info(plugin) for plugin in plugins.values()]
    return [{**_plugin_info(plugin), _RUNTIME: registry.runtime(plugin.name)} for plugin in plugins.values()]


def _plugin_info(plugin: PluginInfo) -> dict[str, Any]:
    """Return `{"class","type"[,"version"]}`; the version is omitted if unknown."""
    version = {} if plugin.known_version is None else {"version": plugin.known_version}
    return {"class": plugin.name, "type": str(plugin.kind), **version}


def _describe(threads: BlockingCalls) -> Endpoint:
    """Return the endpoint GET /connector-plugins/{p}/config."""

    @endpoint(
        "GET",
        _CONFIG_PATH,
        Operation(
            name="getPluginConfig",
            tag="plugins",
            summary="List the config keys of a plugin",
            query=(
                Query(
                    name="version",
                    description="Version, or range of versions, that the plugin must have (KIP-891).",
                    schema=TEXT,
                ),
            ),
            responses={200: list_of(ref("ConfigKeyInfo"))},
            errors=(400, 503),
        ),
    )
    async def get(services: Services, request: Request) -> Response:
        name = plugin_name(request)
        version = request.query_params.get("version")
        keys = await threads.run(lambda: describe_plugin(services.registry, name, version))
        return json_response([key.to_json() for key in keys])

    return get


def _validate(threads: BlockingCalls) -> Endpoint:
    """Return the endpoint PUT /connector-plugins/{p}/config/validate: 200 even when the config has errors."""

    @endpoint(
        "PUT",
        f"{_CONFIG_PATH}/validate",
        Operation(
            name="validatePluginConfig",
            tag="plugins",
            summary="Validate a connector config",
            description="The response lists the errors of the config; its status is 200 even if there are errors.",
            body="SentConfig",
            responses={200: "ConfigInfos"},
        ),
    )
    async def put(services: Services, request: Request) -> Response:
        name = plugin_name(request)
        config = parse_config(await read_body(services, request))
        infos = await threads.run(lambda: services.validate(name, config))
        return json_response(infos.to_json())

    return put


def _connector_parts(threads: BlockingCalls) -> Endpoint:
    """Return the endpoint GET /connectors/{c}/plugins, Kraal's addition."""

    @endpoint(
        "GET",
        "/connectors/{connector}/plugins",
        Operation(
            name="listConnectorParts",
            tag="connectors",
            summary="List the plugins that a connector's config names, with their running versions",
            responses={200: list_of(ref("ConnectorPart"))},
            errors=(503,),
        ),
    )
    async def get(services: Services, request: Request) -> Response:
        stored_config = view.connector_config(await live_snapshot(services), connector_name(request))
        config = {key: text for key, text in stored_config.items() if isinstance(text, str)}
        plugins = await threads.run(
            lambda: list_parts(services.registry, config, services.settings.converters)
        )
        return json_response([plugin.to_json() for plugin in plugins])

    return get
