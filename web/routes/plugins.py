"""`/connector-plugins`: installed plugins, their config keys, and validation of configs; and a connector's plugins.

All of these may import or run plugin code, so they run on their own threads, never on the event loop.
Source: ConnectorPluginsResource (Kafka 4.3.0); KIP-769.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from anyio import CapacityLimiter, fail_after, to_thread

from kraal.cluster.views import rest as view
from kraal.core.errors import TimedOut
from kraal.plugins.connector_parts import parts_of
from kraal.plugins.entries import PluginInfo
from kraal.plugins.registry import Registry
from kraal.plugins.validation.validate import describe_plugin
from web.middleware.admission import Scarce
from web.openapi.operation import Operation, Query
from web.openapi.shapes import TEXT, list_of, ref
from web.rendering import json_answer, timeout_text
from web.requests.body import parse_config, read_body
from web.requests.paths import connector_of, is_true, plugin_of
from web.resource import Endpoint, endpoint, live_snapshot
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")


_ALL: Final = "/connector-plugins"
_RUNTIME: Final = "runtime"
_CONFIG: Final = f"{_ALL}/{{plugin}}/config"


def endpoints(services: Services) -> list[Endpoint]:
    """Return the endpoints of plugins, which share their threads."""
    threads = PluginThreads(services)
    return [_list(threads), _describe(threads), _validate(threads), _parts(threads)]


class PluginThreads:
    """Runs blocking calls. A call that times out is abandoned; its thread counts until it ends."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._limiter: CapacityLimiter | None = None
        self._waiting = 0
        services.admission.watch(Scarce.PLUGINS, lambda: self._waiting)

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` with the request timeout. Raises TimedOut, with the stage but no final period; Unavailable."""
        settings = self._services.settings
        self._services.admission.enter(Scarce.PLUGINS)
        self._waiting += 1
        if self._limiter is None:  # requires a running event loop
            self._limiter = CapacityLimiter(settings.validation_threads)
        try:
            with fail_after(settings.request_timeout_s):
                return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
        except TimeoutError as exc:
            text = timeout_text(self._services.published.latest.stage)
            raise TimedOut(text.removesuffix(".")) from exc
        finally:
            self._waiting -= 1


def _list(threads: PluginThreads) -> Endpoint:
    """Make GET /connector-plugins."""

    @endpoint(
        "GET",
        _ALL,
        Operation(
            name="listPlugins",
            tag="plugins",
            summary="List the plugins of this worker",
            query=(
                Query(
                    name="connectorsOnly",
                    about="List connectors only.",
                    schema={"type": "boolean", "default": True},
                ),
                Query(
                    name="expand",
                    about="With `runtime`: add what runs each plugin, the JVM of Java plugins or Python.",
                    schema={"type": "string", "enum": [_RUNTIME]},
                ),
            ),
            answers={200: list_of(ref("PluginInfo"))},
            errors=(503,),
        ),
    )
    async def get(services: Services, request: Request) -> Response:
        connectors_only = is_true(request, "connectorsOnly", default=True)
        expand = _RUNTIME in request.query_params.getlist("expand")
        listed = await threads.run(
            lambda: _listed(services.registry, only=connectors_only, with_runtime=expand)
        )
        return json_answer(listed)

    return get


def _listed(registry: Registry, *, only: bool, with_runtime: bool) -> list[dict[str, Any]]:
    """Return the plugins; one that is in two places with the same version is listed once."""
    found = {(each.name, each.kind, each.version): each for each in registry.plugins(connectors_only=only)}
    if not with_runtime:
        return [_plugin_info(plugin) for plugin in found.values()]
    return [{**_plugin_info(plugin), _RUNTIME: registry.runtime(plugin.name)} for plugin in found.values()]


def _plugin_info(plugin: PluginInfo) -> dict[str, Any]:
    """Shape: `{"class","type"[,"version"]}`; the version is omitted if unknown."""
    version = {"version": plugin.version} if plugin.version else {}
    return {"class": plugin.name, "type": str(plugin.kind), **version}


def _describe(threads: PluginThreads) -> Endpoint:
    """Make GET /connector-plugins/{p}/config."""

    @endpoint(
        "GET",
        _CONFIG,
        Operation(
            name="getPluginConfig",
            tag="plugins",
            summary="List the config keys of a plugin",
            query=(
                Query(
                    name="version",
                    about="Version, or range of versions, that the plugin must have (KIP-891).",
                    schema=TEXT,
                ),
            ),
            answers={200: list_of(ref("ConfigKeyInfo"))},
            errors=(400, 503),
        ),
    )
    async def get(services: Services, request: Request) -> Response:
        name = plugin_of(request)
        version = request.query_params.get("version")
        keys = await threads.run(lambda: describe_plugin(services.registry, name, version))
        return json_answer([key.to_json() for key in keys])

    return get


def _validate(threads: PluginThreads) -> Endpoint:
    """Make PUT /connector-plugins/{p}/config/validate: 200 even when the config has errors."""

    @endpoint(
        "PUT",
        f"{_CONFIG}/validate",
        Operation(
            name="validatePluginConfig",
            tag="plugins",
            summary="Validate a connector config",
            about="The response lists the config's errors, and is 200 even if there are some.",
            body="SentConfig",
            answers={200: "ConfigInfos"},
        ),
    )
    async def put(services: Services, request: Request) -> Response:
        name = plugin_of(request)
        config = parse_config(await read_body(services, request))
        infos = await threads.run(lambda: services.validate(name, config))
        return json_answer(infos.to_json())

    return put


def _parts(threads: PluginThreads) -> Endpoint:
    """Make GET /connectors/{c}/plugins. Kraal's own."""

    @endpoint(
        "GET",
        "/connectors/{connector}/plugins",
        Operation(
            name="listConnectorParts",
            tag="connectors",
            summary="List the plugins that a connector's config names, in the versions that run",
            answers={200: list_of(ref("ConnectorPart"))},
            errors=(503,),
        ),
    )
    async def get(services: Services, request: Request) -> Response:
        written = view.connector_config(await live_snapshot(services), connector_of(request))
        config = {key: text for key, text in written.items() if isinstance(text, str)}
        found = await threads.run(lambda: parts_of(services.registry, config, services.settings.converters))
        return json_answer([each.to_json() for each in found])

    return get
