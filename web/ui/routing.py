"""Routes of pages: a path, a template, and a handler that converts REST responses to values for the template.

A page also has parts: templates that `GET …?part=NAME` renders separately, from the same values, after a change.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from kraal.core.errors import BadRequest, KraalError
from kraal.core.rest_requests import decode_segment
from web.ui.features import Features
from web.ui.memory import DashboardState
from web.ui.options import DashboardOptions
from web.ui.rendering import Rendering, etag, unescape_segment, url
from web.ui.sources.api import Caller, Source, SourceUnavailable
from web.ui.sources.per_request import RecordingSource
from web.ui.views.copy_as import Request as CopiedRequest
from web.ui.views.copy_as import Snippet, curl, join_copies

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

log = logging.getLogger(__name__)

HTML: Final = "text/html; charset=utf-8"
PART: Final = "part"
RESULT: Final = "result"
"""Parameter with the token of an action's notice."""
_MAX_FIELDS: Final = 5_000

Model = Mapping[str, Any]
Handler = Callable[["Visit"], Awaitable[Model | Response]]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Objects shared by all pages."""

    source: Source
    options: DashboardOptions
    rendering: Rendering
    memory: DashboardState = field(default_factory=DashboardState)


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A route under `/ui`: a page (GET) or an action (POST)."""

    path: str
    """Path under `/ui`, in Starlette's syntax."""
    handler: Handler
    template: str = ""
    parts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Templates of the parts by name."""
    method: str = "GET"
    nav: str = ""
    """Navigation entry of the page."""


def page(
    path: str, template: str, *, parts: Mapping[str, str] | None = None, nav: str = ""
) -> Callable[[Handler], PageRoute]:
    """Decorate the handler of a page, which returns the template's values or a response."""
    return lambda handler: PageRoute(path, handler, template, MappingProxyType(dict(parts or {})), nav=nav)


def action(path: str, *, template: str = "", nav: str = "") -> Callable[[Handler], PageRoute]:
    """Decorate the handler of a posted form, which returns a redirect or values for `template`."""
    return lambda handler: PageRoute(path, handler, template, method="POST", nav=nav)


class Visit:
    """A browser request, with access to the cluster on the user's behalf."""

    def __init__(self, dashboard: Dashboard, request: Request, features: Features) -> None:
        self.request = request
        self.source = RecordingSource(dashboard.source)
        self.options = dashboard.options
        self.features = features
        """Features of the worker's REST API."""
        self.caller = read_caller(request)
        self.memory = dashboard.memory

    @cached_property
    def name(self) -> str:
        """Connector name in the path. Raises BadRequest."""
        return self.segment("connector")

    def segment(self, parameter: str) -> str:
        """Return a decoded path segment. Raises BadRequest."""
        return unescape_segment(decode_segment(self.request.path_params[parameter]))

    def text(self, parameter: str, default: str = "") -> str:
        """Return a query parameter."""
        return self.request.query_params.get(parameter, default)

    def number(self, parameter: str, default: int = 0) -> int:
        """Return a query parameter that is an integer from 0 to 999,999; `default` for any other value."""
        text = self.text(parameter)
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else default  # noqa: PLR2004

    async def form(self) -> list[tuple[str, str]]:
        """Return the fields of the posted form in order.

        Raises BadRequest, TooLarge if the form exceeds the limit, and Unavailable if memory for bodies is full.
        """
        body = bytearray()
        async for chunk in self.request.stream():
            body += chunk
            if self.options.count_body is not None:
                self.options.count_body(self.request.scope, len(chunk))
            if len(body) > self.options.max_form_bytes:
                raise TooLarge(f"The form exceeds the maximum of {self.options.max_form_bytes} bytes.")
        try:
            return parse_qsl(
                body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"
            )
        except ValueError as exc:
            raise BadRequest("The form is not valid UTF-8 or has too many fields.") from exc

    def curl(self, request: CopiedRequest) -> Snippet:
        """Return a REST request as a curl command. Secrets in its body must already be masked."""
        base = self.options.rest_url or f"{self.request.url.scheme}://{self.request.url.netloc}"
        return curl(request, base, needs_password=self.caller.authorization is not None)

    def curl_copies(self) -> list[Snippet]:
        """Return the requests behind the page as curl commands."""
        return join_copies([self.curl(request) for request in self.source.get_requests])

    def redirect(self, *segments: str, **query: str | int | None) -> Response:
        """Return a redirect to a page, as after an action."""
        return RedirectResponse(url(*segments, **query), HTTPStatus.SEE_OTHER)


class TooLarge(KraalError):
    """The form exceeds the dashboard's limit."""

    status = 413


class PageEndpoint:
    """ASGI application for the pages of one path."""

    def __init__(self, dashboard: Dashboard, pages: Mapping[str, PageRoute]) -> None:
        """Create the endpoint from pages by method; the GET page also serves HEAD."""
        self._dashboard = dashboard
        self._pages = {**pages, **({"HEAD": pages["GET"]} if "GET" in pages else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; render errors, including unexpected ones, as a page."""
        request = Request(scope, receive, send)
        try:
            response = await self._respond(request)
        except ClientDisconnect:
            return
        except (KraalError, RecursionError) as error:
            response = error_page(self._dashboard, request, error)
        except Exception as error:
            log.exception("Failed to render page %s", request.url.path)
            response = error_page(self._dashboard, request, error)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        page = self._pages.get(request.method)
        if page is None:
            allowed_methods = ", ".join(sorted(self._pages))
            return Response("Method not allowed", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": allowed_methods})
        features = await self._dashboard.source.features(read_caller(request))
        request.state.features = features  # for the error page
        visit = Visit(self._dashboard, request, features)
        model = await page.handler(visit)
        if isinstance(model, Response):
            return model
        part = request.query_params.get(PART)
        if part is not None and part not in page.parts:
            raise BadRequest(f"This page has no part {part}.")
        template = page.template if part is None else page.parts[part]
        status = model.get("status_code", HTTPStatus.OK)
        commands = [] if part is not None or "copies" in model else visit.curl_copies()
        values = {**_shared_values(visit, page), "curl": commands, **model}
        return _render(self._dashboard, request, template, values, status)


def read_caller(request: Request) -> Caller:
    """Return the browser's user as caller of the REST API."""
    address = "" if request.client is None else request.client.host
    return Caller(request.headers.get("authorization"), address, request.scope.get("scheme", "http"))


def error_page(dashboard: Dashboard, request: Request, error: Exception) -> Response:
    """Render an error as a page, or as text if a part was requested."""
    status, text = _status_and_text(error)
    values: dict[str, Any] = {
        "features": getattr(request.state, "features", Features()),
        "nav": "",
        "result": None,
        "path": request.url.path,
        "curl": [],
        "is_unavailable": isinstance(error, SourceUnavailable),
        "status": int(status),
        "text": text,
    }
    template = "parts/error.html" if PART in request.query_params else "pages/error.html"
    return _render(dashboard, request, template, values, status)


def _status_and_text(error: Exception) -> tuple[int, str]:
    """Return the status and text of an error, hiding the text of unexpected errors."""
    match error:
        case KraalError():
            return error.status, str(error)
        case HTTPException(status_code=HTTPStatus.NOT_FOUND):
            return HTTPStatus.NOT_FOUND, "There is no such page."
        case HTTPException():
            return error.status_code, error.detail
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR, "The dashboard failed; see the worker's log."


def _shared_values(visit: Visit, page: PageRoute) -> dict[str, Any]:
    """Return the values passed to every template."""
    return {
        "features": visit.features,
        "nav": page.nav,
        "path": visit.request.url.path,
        "result": visit.memory.notices.get(visit.text(RESULT)),
    }


def _render(dashboard: Dashboard, request: Request, template: str, values: Model, status: int) -> Response:
    body = dashboard.rendering.render(template, values)
    tag = etag(body)
    headers = {"ETag": tag, "Content-Type": HTML}
    if status == HTTPStatus.OK and request.headers.get("if-none-match") == tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})
    return Response(body, status, headers)
