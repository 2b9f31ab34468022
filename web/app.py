"""The REST API as one ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from actors.mailbox import Address
from kraal.cluster.snapshot import Published
from kraal.errors import KraalError
from kraal.loggers import Loggers
from web import admin, connectors, plugins
from web import loggers as loggers_of
from web.errors import on_http_exception, on_kraal_error
from web.front import Front
from web.settings import Services, Settings, Validate

if TYPE_CHECKING:
    from kraal.plugins.registry import Registry


def create_app(
    herder: Address,
    published: Published,
    registry: Registry,
    validate: Validate,
    settings: Settings,
    loggers: Loggers | None = None,
) -> Starlette:
    """Build the application: route tables, error handlers, and the front before them.

    `published` is what GETs render from, `herder` is asked for everything else. `loggers` are those that the
    herder changes; None: all of the process.
    """
    services = Services(
        herder=herder,
        published=published,
        registry=registry,
        validate=validate,
        settings=settings,
        loggers=loggers or Loggers(),
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await services.peers.close()

    app = Starlette(
        lifespan=lifespan,
        routes=[
            *connectors.routes(services),
            *plugins.routes(services),
            *admin.routes(services),
            *loggers_of.routes(services),
        ],
        exception_handlers={KraalError: on_kraal_error, HTTPException: on_http_exception},
        middleware=[Middleware(Front, services=services)],
    )
    app.router.redirect_slashes = False
    return app
