"""The REST API as ASGI applications: one for all listeners, or two if admin listeners are separate.

A request passes, in this order, through CORS, response headers, authentication and caching, and the route table.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from actors.runtime.mailbox import Address
from kraal.cluster.views.snapshot import Published
from kraal.core.errors import KraalError
from kraal.core.log_levels import Loggers
from kraal.journal.journal import Journal, disabled_journal
from kraal.peers import Peers
from web.authentication import AuthenticationMiddleware
from web.errors import on_http_exception, on_kraal_error
from web.health import HealthCheck
from web.members import Members
from web.middleware.admission import Admission, LimitedResource
from web.middleware.cors import CrossOrigin
from web.middleware.response_cache import ResponseCache
from web.middleware.response_headers import ResponseHeaders
from web.requests.relay import MetricsRelay
from web.resource import Endpoint, routes
from web.routes import (
    assignments,
    changes,
    connectors,
    explain,
    history,
    internal,
    logs,
    metrics,
    offsets,
    plugins,
    progress,
    root,
    tables,
    tasks,
    topics,
)
from web.routes import dead_letters as dead_letter_routes
from web.routes import ledger as ledger_routes
from web.routes import loggers as plugin_loggers
from web.routes import proofs as proof_routes
from web.routes.dead_letters import OpenKafka
from web.routes.openapi import openapi_endpoint
from web.routes.proofs import ProofRunner
from web.settings import Services, Settings, Validate
from web.streams import Broadcaster
from web.ui.late import LateDashboard
from web.ui.mount import DashboardMount
from web.ui.options import PREFIX, DashboardOptions
from web.ui.sources.in_process import InProcessSource

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import Lifespan

    from kraal.metrics.progress import ProgressReports
    from kraal.metrics.stalls.detection import StallDetection
    from kraal.plugins.registry import Registry


_ADMIN_ENDPOINTS: Final = (*plugin_loggers.ENDPOINTS, *assignments.ENDPOINTS)
"""Endpoints with the prefix `/admin`. If `admin.listeners` is set, the other listeners do not serve them.

Source: ConnectRestServer.adminResources (Kafka 4.4.0). `/admin/assignments` is Kraal's addition.
"""


@dataclass(frozen=True, slots=True)
class Apps:
    """Applications of the listeners."""

    main: Starlette
    admin: Starlette
    """Application of `admin.listeners`: the admin endpoints and the dashboard. Shares the lifespan of `main`."""
    streams: Broadcaster
    """Broadcaster of the open streams. Must be closed before the server, which waits for open streams."""


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
    progress: ProgressReports | None = None,
    admission: Admission | None = None,
    dead_letters: OpenKafka | None = None,
    proofs: ProofRunner | None = None,
    ledger: Address | None = None,
    journal: Journal | None = None,
) -> Apps:
    """Build the applications: route tables, error handlers and middleware.

    GETs are rendered from `published`; all other requests are sent to `herder`. `gather` collects the metrics of other
    processes before each scrape. `loggers` are the loggers that the herder changes (default: all). Pass `admission` if
    its counters are also exported as metrics; by default, a new one is created from the limits in `settings`.

    Without `scrape`, `/metrics` is not served. Without `stall_detection`, `expand=supervision` is ignored. Without
    `progress`, `expand=progress` is ignored, and `/connectors/{c}/series` and `/connectors/{c}/tables` are not served.
    Without `dead_letters`, dead letters are not served. Without `proofs`, `/connectors/{c}/proof` is not served.
    Without `ledger`, the actor that counts delivered records, `/connectors/{c}/ledger` is not served. Without
    `journal`, no events are recorded.
    """
    services = Services(
        herder=herder,
        published=published,
        registry=registry,
        validate=validate,
        settings=settings,
        peers=Peers(settings.peer_tls),
        members=Members(settings.members),
        loggers=loggers or Loggers(),
        stall_detection=stall_detection,
        progress=progress,
        admission=admission or Admission(settings.limits),
        health_check=HealthCheck(herder),
        streams=Broadcaster(published),
        journal=journal or disabled_journal(),
    )
    services.admission.set_gauge(LimitedResource.HERDER, lambda: herder.open_questions)
    services.admission.set_gauge(LimitedResource.WORKERS, lambda: services.peers.waiting)
    services.admission.set_gauge(LimitedResource.STREAMS, lambda: services.streams.reader_count)

    relay = MetricsRelay(services)
    main = [
        *_main_endpoints(services, scrape, gather),
        *changes.endpoints(relay),
        *dead_letter_routes.endpoints(services, dead_letters),
        *proof_routes.endpoints(proofs),
        *ledger_routes.endpoints(ledger),
    ]
    main.append(openapi_endpoint(settings, main))
    return _apps(services, main, relay)


def _main_endpoints(
    services: Services, scrape: metrics.Scrape | None, gather: metrics.Gather | None
) -> list[Endpoint]:
    """Return the endpoints of the main listeners."""
    return [
        *connectors.ENDPOINTS,
        *(() if services.progress is None else (*progress.ENDPOINTS, *tables.ENDPOINTS)),
        *tasks.ENDPOINTS,
        *internal.ENDPOINTS,
        *topics.ENDPOINTS,
        *offsets.ENDPOINTS,
        *plugins.endpoints(services),
        *history.ENDPOINTS,
        *explain.ENDPOINTS,
        *logs.ENDPOINTS,
        *root.ENDPOINTS,
        *metrics.endpoints(scrape, gather),
        *(() if services.settings.has_separate_admin else _ADMIN_ENDPOINTS),
    ]


def _apps(services: Services, main: Sequence[Endpoint], relay: MetricsRelay) -> Apps:
    """Build the applications and mount the dashboard, which sends its requests to them."""
    settings = services.settings
    source = InProcessSource()
    dashboard = _dashboard(services, source) if settings.ui else None
    pages = [] if dashboard is None else [DashboardMount(dashboard)]
    has_separate_admin = settings.has_separate_admin
    cors = [] if settings.cors is None else [Middleware(CrossOrigin, rules=settings.cors, except_for=PREFIX)]
    # Admin listeners do not share the cache of the main listeners.
    admin_services = replace(services, rendered=ResponseCache())
    apps = Apps(
        main=_app(
            services, main, cors, _lifespan(services, dashboard, relay), [] if has_separate_admin else pages
        ),
        admin=_app(admin_services, _ADMIN_ENDPOINTS, [], None, pages if has_separate_admin else []),
        streams=services.streams,
    )
    source.bind(apps.main, apps.admin if has_separate_admin else None)
    return apps


def _dashboard(services: Services, source: InProcessSource) -> LateDashboard:
    settings = services.settings
    worker = settings.advertised_url.partition("://")[2].rstrip("/")
    options = DashboardOptions(
        worker=worker,
        read_only=settings.ui_read_only,
        version=settings.version,
        count_body=partial(services.admission.count_body_bytes, internal=False),
    )
    return LateDashboard(source, options)


def _lifespan(
    services: Services, dashboard: LateDashboard | None, relay: MetricsRelay
) -> Lifespan[Starlette]:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        prepare_task = None if dashboard is None else asyncio.create_task(dashboard.prepare())
        try:
            yield
        finally:
            if dashboard is not None and prepare_task is not None:
                await asyncio.wait([prepare_task])
                await dashboard.close()
            await relay.close()
            await services.peers.close()

    return lifespan


def _app(
    services: Services,
    endpoints: Sequence[Endpoint],
    outermost: Sequence[Middleware],
    lifespan: Lifespan[Starlette] | None,
    pages: Sequence[BaseRoute],
) -> Starlette:
    rules = services.settings.response_headers
    headers = [Middleware(ResponseHeaders, rules=rules)] if rules else []
    app = Starlette(
        lifespan=lifespan,
        routes=[*routes(services, endpoints), *pages],
        exception_handlers={KraalError: on_kraal_error, HTTPException: on_http_exception},
        middleware=[*outermost, *headers, Middleware(AuthenticationMiddleware, services=services)],
    )
    app.router.redirect_slashes = False
    return app
