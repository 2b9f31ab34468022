"""The REST API as ASGI applications: one for all listeners, or a second one for those of administrators.

From the outside in: CORS, headers of every answer, the front, which asks for a password, and the route tables.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from actors.mailbox import Address
from kraal.cluster.snapshot import Published
from kraal.errors import KraalError
from kraal.loggers import Loggers
from kraal.peers import Peers
from web import admin, assignments, connectors, metrics, openapi, plugins
from web import loggers as loggers_of
from web.admission import Admission, Scarce
from web.cors import CrossOrigin
from web.errors import on_http_exception, on_kraal_error
from web.front import Front
from web.pulse import Pulse
from web.rendered import Rendered
from web.response_headers import ResponseHeaders
from web.settings import Services, Settings, Validate

if TYPE_CHECKING:
    from starlette.routing import Route
    from starlette.types import Lifespan

    from kraal.metrics.oversight import Oversight
    from kraal.plugins.registry import Registry


@dataclass(frozen=True, slots=True)
class Apps:
    """What listeners serve."""

    main: Starlette
    admin: Starlette
    """For `admin.listeners`: the endpoints of administrators alone. Its life is a part of the other's."""


def create_apps(
    herder: Address,
    published: Published,
    registry: Registry,
    validate: Validate,
    settings: Settings,
    *,
    scrape: metrics.Scrape | None = None,
    loggers: Loggers | None = None,
    oversight: Oversight | None = None,
    admission: Admission | None = None,
) -> Apps:
    """Build the applications: route tables, error handlers, and what stands before them.

    `published` is what GETs render from, `herder` is asked for everything else. `scrape` makes what Prometheus gets;
    None: there is no such path. `loggers` are those that the herder changes; None: all of the process. `oversight`
    knows what restarts and stalls; None: `expand=supervision` is passed over. `admission` keeps account of what is
    taken on, for whoever shows it; None: nobody does.
    """
    services = Services(
        herder=herder,
        published=published,
        registry=registry,
        validate=validate,
        settings=settings,
        peers=Peers(settings.peer_tls),
        loggers=loggers or Loggers(),
        oversight=oversight,
        admission=admission or Admission(settings.limits),
        pulse=Pulse(herder),
    )
    services.admission.watch(Scarce.HERDER, lambda: herder.open_questions)
    services.admission.watch(Scarce.WORKERS, lambda: services.peers.waiting)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await services.peers.close()

    main = [
        *connectors.routes(services),
        *plugins.routes(services),
        *admin.routes(services),
        *metrics.routes(services, scrape),
        *openapi.routes(services),
    ]
    if not settings.admin_apart:
        main += admin_routes(services)
    cors = [] if settings.cors is None else [Middleware(CrossOrigin, rules=settings.cors)]
    # What the main listeners have kept to answer with is not for those of administrators.
    theirs = replace(services, rendered=Rendered())
    return Apps(main=_app(services, main, cors, lifespan), admin=_app(theirs, admin_routes(theirs), [], None))


def admin_routes(services: Services) -> list[Route]:
    """Return the route tables of all below `/admin`, which `admin.listeners` can take away from the other paths.

    Source: ConnectRestServer.adminResources (Kafka 4.3.0), which has no assignments.
    """
    return [*loggers_of.routes(services), *assignments.routes(services)]


def _app(
    services: Services,
    routes: Sequence[Route],
    outermost: Sequence[Middleware],
    lifespan: Lifespan[Starlette] | None,
) -> Starlette:
    rules = services.settings.response_headers
    headers = [Middleware(ResponseHeaders, rules=rules)] if rules else []
    app = Starlette(
        lifespan=lifespan,
        routes=routes,
        exception_handlers={KraalError: on_kraal_error, HTTPException: on_http_exception},
        middleware=[*outermost, *headers, Middleware(Front, services=services)],
    )
    app.router.redirect_slashes = False
    return app
