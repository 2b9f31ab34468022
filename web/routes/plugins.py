"""`/connector-plugins`: installed plugins, their config keys, and validation of configs.

All of these may import or run plugin code, so they run on their own threads, never on the event loop.
Source: ConnectorPluginsResource (Kafka 4.3.0); KIP-769.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from anyio import CapacityLimiter, fail_after, to_thread
from starlette.routing import Route

from kraal.core.errors import TimedOut
from kraal.plugins.registry import Plugin, Registry
from kraal.plugins.validation.validate import describe_plugin
from web.middleware.admission import Scarce
from web.rendering import json_answer, timeout_text
from web.requests.body import parse_config, read_body
from web.requests.paths import is_true, plugin_of
from web.resource import Handler, Resource
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

T = TypeVar("T")


def routes(services: Services) -> list[Route]:
    """Return the route table of plugins."""
    threads = PluginThreads(services)
    one = "/connector-plugins/{plugin}/config"
    return [
        Route("/connector-plugins", Resource(services, GET=_list(threads))),
        Route(one, Resource(services, GET=_describe(threads))),
        Route(f"{one}/validate", Resource(services, PUT=_validate(threads))),
    ]


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


def _list(threads: PluginThreads) -> Handler:
    """Make GET /connector-plugins."""

    async def get(services: Services, request: Request) -> Response:
        connectors_only = is_true(request, "connectorsOnly", default=True)
        return json_answer(await threads.run(lambda: _listed(services.registry, only=connectors_only)))

    return get


def _listed(registry: Registry, *, only: bool) -> list[dict[str, Any]]:
    return [_plugin_info(plugin) for plugin in registry.plugins(connectors_only=only)]


def _plugin_info(plugin: Plugin) -> dict[str, Any]:
    """Shape: `{"class","type"[,"version"]}`; the version is omitted if unknown."""
    version = {"version": plugin.version} if plugin.version else {}
    return {"class": plugin.name, "type": str(plugin.kind), **version}


def _describe(threads: PluginThreads) -> Handler:
    """Make GET /connector-plugins/{p}/config."""

    async def get(services: Services, request: Request) -> Response:
        name = plugin_of(request)
        version = request.query_params.get("version")
        keys = await threads.run(lambda: describe_plugin(services.registry, name, version))
        return json_answer([key.to_json() for key in keys])

    return get


def _validate(threads: PluginThreads) -> Handler:
    """Make PUT /connector-plugins/{p}/config/validate: 200 even when the config has errors."""

    async def put(services: Services, request: Request) -> Response:
        name = plugin_of(request)
        config = parse_config(await read_body(services, request))
        infos = await threads.run(lambda: services.validate(name, config))
        return json_answer(infos.to_json())

    return put
