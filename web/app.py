"""The REST API as ASGI applications: one for all listeners, or a second one for admin listeners.

From the outside in: CORS, response headers, authentication and caching, route tables.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from actors.runtime.mailbox import Address
from kraal.cluster.views.snapshot import Published
from kraal.core.errors import KraalError
from kraal.core.log_levels import Loggers
from kraal.peers import Peers
from web.authentication import AuthenticationMiddleware
from web.errors import on_http_exception, on_kraal_error
from web.health import HealthCheck
from web.middleware.admission import Admission, Scarce
from web.middleware.cors import CrossOrigin
from web.middleware.response_cache import ResponseCache
from web.middleware.response_headers import ResponseHeaders
from web.resource import Endpoint, routes
from web.routes import (
    assignments,
    changes,
    connectors,
    internal,
    metrics,
    offsets,
    plugins,
    root,
    tasks,
    topics,
)
from web.routes import loggers as loggers_of
from web.routes.openapi import openapi_endpoint
from web.settings import Services, Settings, Validate
from web.streams import Broadcaster

if TYPE_CHECKING:
    from starlette.types import Lifespan

    from kraal.metrics.stall_detection import StallDetection
    from kraal.plugins.registry import Registry


_ADMIN: Final = (*loggers_of.ENDPOINTS, *assignments.ENDPOINTS)
"""Everything below `/admin`, which `admin.listeners` can remove from the other listeners.

Source: ConnectRestServer.adminResources (Kafka 4.3.0), which has no assignments.
"""


@dataclass(frozen=True, slots=True)
class Apps:
    """Applications of the listeners."""

    main: Starlette
    admin: Starlette
    """For `admin.listeners`: the admin endpoints only. Shares the lifespan of the other application."""
    streams: Broadcaster
    """Open streams; close it before the server stops, or the stop waits for them."""


def create_apps(
    herder: Address,
    published: Published,
    registry: Registry,
    validate: Validate,
    settings: Settings,
    *,
    scrape: metrics.Scrape | None = None,
    gather: metrics.Gather | None = None,
    loggers: Loggers | None = None,
    stall_detection: StallDetection | None = None,
    admission: Admission | None = None,
) -> Apps:
    """Build the applications: route tables, error handlers and middleware.

    GETs render from `published`; everything else asks `herder`. `scrape` renders the metrics; None: no `/metrics`.
    `gather` asks for numbers of other processes before each scrape.
    `loggers` are those that the herder changes; None: all of the process. `stall_detection` knows restarts and stalls;
    None: `expand=supervision` is ignored. `admission` counts requests and bodies, and metrics may share it; None: a new
    one.
    """
    services = Services(
        herder=herder,
        published=published,
        registry=registry,
        validate=validate,
        settings=settings,
        peers=Peers(settings.peer_tls),
        loggers=loggers or Loggers(),
        stall_detection=stall_detection,
        admission=admission or Admission(settings.limits),
        health_check=HealthCheck(herder),
        streams=Broadcaster(published),
    )
    services.admission.watch(Scarce.HERDER, lambda: herder.open_questions)
    services.admission.watch(Scarce.WORKERS, lambda: services.peers.waiting)
    services.admission.watch(Scarce.STREAMS, lambda: services.streams.open)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await services.peers.close()

    main = _main_endpoints(services, scrape, gather)
    main.append(openapi_endpoint(settings, main))
    cors = [] if settings.cors is None else [Middleware(CrossOrigin, rules=settings.cors)]
    # Admin listeners do not share the cache of the main listeners.
    theirs = replace(services, rendered=ResponseCache())
    return Apps(
        main=_app(services, main, cors, lifespan),
        admin=_app(theirs, _ADMIN, [], None),
        streams=services.streams,
    )


def _main_endpoints(
    services: Services, scrape: metrics.Scrape | None, gather: metrics.Gather | None
) -> list[Endpoint]:
    """Return the endpoints of the listeners that are not for administrators only."""
    return [
        *connectors.ENDPOINTS,
        *tasks.ENDPOINTS,
        *internal.ENDPOINTS,
        *topics.ENDPOINTS,
        *offsets.ENDPOINTS,
        *plugins.endpoints(services),
        *root.ENDPOINTS,
        *changes.ENDPOINTS,
        *metrics.endpoints(scrape, gather),
        *(() if services.settings.admin_apart else _ADMIN),
    ]


def _app(
    services: Services,
    endpoints: Sequence[Endpoint],
    outermost: Sequence[Middleware],
    lifespan: Lifespan[Starlette] | None,
) -> Starlette:
    rules = services.settings.response_headers
    headers = [Middleware(ResponseHeaders, rules=rules)] if rules else []
    app = Starlette(
        lifespan=lifespan,
        routes=routes(services, endpoints),
        exception_handlers={KraalError: on_kraal_error, HTTPException: on_http_exception},
        middleware=[*outermost, *headers, Middleware(AuthenticationMiddleware, services=services)],
    )
    app.router.redirect_slashes = False
    return app
