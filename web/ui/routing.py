"""Pages: a path, a template, and a handler that turns responses of the cluster into values for the template.

A page also has parts: templates that `GET …?part=NAME` renders alone, from the same values, after a change.
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
from web.ui.memory import Memory
from web.ui.options import DashboardOptions
from web.ui.rendering import Rendering, etag, name_of_segment, url
from web.ui.sources.api import Caller, Refused, Source, SourceUnavailable
from web.ui.sources.per_request import Recording
from web.ui.views.copy_as import Copied, curl, join_copies
from web.ui.views.copy_as import Request as CopiedRequest

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
    """Objects that all pages share."""

    source: Source
    options: DashboardOptions
    rendering: Rendering
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True, slots=True)
class Page:
    """A page, or with the method POST an action."""

    path: str
    """Below `/ui`, in Starlette's syntax."""
    handler: Handler
    template: str = ""
    parts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Templates of the parts by their names."""
    method: str = "GET"
    nav: str = ""
    """Navigation entry of the page."""


def page(
    path: str, template: str, *, parts: Mapping[str, str] | None = None, nav: str = ""
) -> Callable[[Handler], Page]:
    """Decorate a handler to make it a `Page`; the handler returns the template's values or a response."""
    return lambda handler: Page(path, handler, template, MappingProxyType(dict(parts or {})), nav=nav)


def action(path: str, *, template: str = "", nav: str = "") -> Callable[[Handler], Page]:
    """Decorate a handler of a posted form to make it an action; it returns a redirect or values for `template`."""
    return lambda handler: Page(path, handler, template, method="POST", nav=nav)


class Visit:
    """One request of a browser, and access to the cluster on its behalf."""

    def __init__(self, dashboard: Dashboard, request: Request, features: Features) -> None:
        self.request = request
        self.source = Recording(dashboard.source)
        self.options = dashboard.options
        self.features = features
        """Features of the worker's REST API."""
        self.caller = read_caller(request)
        self.memory = dashboard.memory

    @cached_property
    def name(self) -> str:
        """The connector in the path. Raises BadRequest."""
        return self.segment("connector")

    def segment(self, parameter: str) -> str:
        """Return a decoded segment of the path. Raises BadRequest."""
        return name_of_segment(decode_segment(self.request.path_params[parameter]))

    def text(self, parameter: str, default: str = "") -> str:
        """Return a parameter of the query."""
        return self.request.query_params.get(parameter, default)

    def number(self, parameter: str, default: int = 0) -> int:
        """Return a parameter of the query that is a number from 0 to 999,999."""
        text = self.text(parameter)
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 6 else default  # noqa: PLR2004

    async def form(self) -> list[tuple[str, str]]:
        """Return the fields of the posted form in their order.

        Raises BadRequest, TooLarge beyond the limit, and Unavailable while other bodies fill the worker's memory.
        """
        body = bytearray()
        async for chunk in self.request.stream():
            body += chunk
            if self.options.count_body is not None:
                self.options.count_body(self.request.scope, len(chunk))
            if len(body) > self.options.max_form_bytes:
                raise TooLarge(f"A form may have {self.options.max_form_bytes} bytes at most.")
        try:
            return parse_qsl(
                body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"
            )
        except ValueError as exc:
            raise BadRequest("The form is not valid UTF-8 or has too many fields.") from exc

    def curl(self, request: CopiedRequest) -> Copied:
        """Return a request of the REST API as a command for a shell; secrets in its body must be masked."""
        base = self.options.rest_url or f"{self.request.url.scheme}://{self.request.url.netloc}"
        return curl(request, base, passwords=self.caller.authorization is not None)

    def read_by_curl(self) -> list[Copied]:
        """Return the requests whose answers the page shows."""
        return join_copies([self.curl(each) for each in self.source.read])

    def redirect(self, *segments: str, **query: str | int | None) -> Response:
        """Return the answer after an action: see another page."""
        return RedirectResponse(url(*segments, **query), HTTPStatus.SEE_OTHER)


class TooLarge(KraalError):
    """The form exceeds the dashboard's limit."""

    status = 413


class PageEndpoint:
    """The ASGI application behind the pages of one path."""

    def __init__(self, dashboard: Dashboard, pages: Mapping[str, Page]) -> None:
        """`pages` are by method; that of GET also answers HEAD."""
        self._dashboard = dashboard
        self._pages = {**pages, **({"HEAD": pages["GET"]} if "GET" in pages else {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; unexpected errors too, in a page."""
        request = Request(scope, receive, send)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except (KraalError, RecursionError) as error:
            response = error_page(self._dashboard, request, error)
        except Exception as error:
            log.exception("Failed to make the page %s", request.url.path)
            response = error_page(self._dashboard, request, error)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        page = self._pages.get(request.method)
        if page is None:
            allowed = ", ".join(sorted(self._pages))
            return Response("Method not allowed", HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": allowed})
        features = await self._dashboard.source.features(read_caller(request))
        request.state.features = features  # for the page of an error
        visit = Visit(self._dashboard, request, features)
        model = await page.handler(visit)
        if isinstance(model, Response):
            return model
        part = request.query_params.get(PART)
        if part is not None and part not in page.parts:
            raise BadRequest(f"This page has no part {part}.")
        template = page.template if part is None else page.parts[part]
        status = model.get("status_code", HTTPStatus.OK)
        commands = [] if part is not None or "copies" in model else visit.read_by_curl()
        values = {**_common(visit, page), "curl": commands, **model}
        return _render(self._dashboard, request, template, values, status)


def read_caller(request: Request) -> Caller:
    """Return the caller of the REST API on whose behalf a page is rendered."""
    address = "" if request.client is None else request.client.host
    return Caller(request.headers.get("authorization"), address, request.scope.get("scheme", "http"))


def error_page(dashboard: Dashboard, request: Request, error: Exception) -> Response:
    """Render an error as a page, or for a part as text only."""
    status, text = _status_and_text(error)
    values: dict[str, Any] = {
        "features": getattr(request.state, "features", Features()),
        "nav": "",
        "result": None,
        "path": request.url.path,
        "curl": [],
        "away": isinstance(error, SourceUnavailable),
        "refused": isinstance(error, Refused),
        "status": int(status),
        "text": text,
    }
    template = "parts/error.html" if PART in request.query_params else "pages/error.html"
    return _render(dashboard, request, template, values, status)


def _status_and_text(error: Exception) -> tuple[int, str]:
    """Return status and text of an error; hides the text of an unexpected one."""
    match error:
        case KraalError():
            return error.status, str(error)
        case HTTPException(status_code=HTTPStatus.NOT_FOUND):
            return HTTPStatus.NOT_FOUND, "There is no such page."
        case HTTPException():
            return error.status_code, error.detail
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR, "The dashboard failed; see the worker's log."


def _common(visit: Visit, page: Page) -> dict[str, Any]:
    """Return the values that every template has."""
    return {
        "features": visit.features,
        "nav": page.nav,
        "path": visit.request.url.path,
        "result": visit.memory.notices.find(visit.text(RESULT)),
    }


def _render(dashboard: Dashboard, request: Request, template: str, values: Model, status: int) -> Response:
    body = dashboard.rendering.render(template, values)
    tag = etag(body)
    headers = {"ETag": tag, "Content-Type": HTML}
    if status == HTTPStatus.OK and request.headers.get("if-none-match") == tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})
    return Response(body, status, headers)
