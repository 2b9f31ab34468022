"""REST API of a remote worker, for `kraal ui`.

Redirects are not followed, because they could send credentials to another server. Proxies and netrc are not used.
Requests use the credentials in `RemoteTarget`; the browser's credentials are never forwarded.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from typing_extensions import override

from kraal import __version__
from kraal.core.ids import Json
from kraal.core.rest_requests import encode_segment, retry_delay_s
from web.ui.features import Features, detect_features
from web.ui.sources.api import (
    ApiResponse,
    Caller,
    Change,
    ChangeEvent,
    Query,
    RequestRejected,
    Source,
    SourceUnavailable,
)
from web.ui.sources.events import parse_changes
from web.ui.sources.messages import encode_body, parse_refusal

if TYPE_CHECKING:
    import httpx2

_CONNECT_TIMEOUT_S: Final = 15.0
_READ_TIMEOUT_S: Final = 45.0
"""Timeout after which a stream without data is considered broken; workers ping every 15 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTarget:
    """Address of a worker, with credentials and timeouts."""

    url: str
    """URL of the REST API, without credentials and without a trailing slash."""
    auth: tuple[str, str] | None = field(default=None, repr=False)
    trust: ssl.SSLContext | None = None
    timeout_s: float = 100.0
    retry_s: float = 30.0
    """Time limit for retries of a GET during a rebalance."""


class RemoteSource(Source):
    """A remote worker of Kraal or Apache Kafka."""

    def __init__(self, worker: RemoteTarget, *, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._worker = worker
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None
        self._features: Features | None = None

    @override
    async def ask(
        self, method: str, *segments: str, query: Query = (), body: Json = None, caller: Caller
    ) -> ApiResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._worker.retry_s
        while True:
            response = await self._send(method, _target(segments, query), encode_body(body))
            if response.is_success:
                return ApiResponse(response.status_code, response.content)
            retry_after = response.headers.get("Retry-After")
            error = parse_refusal(response.status_code, response.content, retry_after)
            pause_s = retry_delay_s(method, error.status, error.text, retry_after)
            if method != "GET" or pause_s is None or loop.time() + pause_s > deadline:
                raise error
            await asyncio.sleep(pause_s)

    @override
    async def changes(self, caller: Caller) -> AsyncGenerator[Change]:
        import httpx2  # noqa: PLC0415 - imported late because workers do not need it

        timeout = httpx2.Timeout(self._worker.timeout_s, read=_READ_TIMEOUT_S)
        try:
            async with self._open_client().stream(
                "GET",
                f"{self._worker.url}/changes",
                headers={"Accept": "text/event-stream"},
                timeout=timeout,
            ) as response:
                if not response.is_success:
                    raise parse_refusal(response.status_code, await response.aread())
                async for change in parse_changes(response.aiter_bytes()):
                    if change.event is ChangeEvent.CLOSING:
                        return  # the worker is stopping, but this process continues
                    yield change
        except httpx2.HTTPError as exc:
            raise self._unavailable_error(exc) from exc

    @override
    async def features(self, caller: Caller) -> Features:
        if self._features is None:
            root = await self.ask("GET", caller=caller)
            try:
                document = (await self.ask("GET", "openapi.json", caller=caller)).value
            except RequestRejected as error:
                if not error.is_unknown_endpoint:
                    raise
                document = None
            self._features = detect_features(root.value, document)
        return self._features

    @override
    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _send(self, method: str, target: str, body: bytes) -> httpx2.Response:
        import httpx2  # noqa: PLC0415 - imported late because workers do not need it

        try:
            return await self._open_client().request(
                method,
                self._worker.url + target,
                content=body or None,
                headers={"Content-Type": "application/json"} if body else {},
            )
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            self._features = None  # the worker may restart with another version
            raise self._unavailable_error(exc) from exc

    def _unavailable_error(self, error: Exception) -> SourceUnavailable:
        return SourceUnavailable(f"{self._worker.url} does not respond: {_describe_error(error)}")

    def _open_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            import httpx2  # noqa: PLC0415 - imported late because workers do not need it

            worker = self._worker
            self._client = httpx2.AsyncClient(
                auth=worker.auth,
                verify=worker.trust if worker.trust is not None else True,
                timeout=httpx2.Timeout(worker.timeout_s, connect=min(_CONNECT_TIMEOUT_S, worker.timeout_s)),
                headers={"Accept": "application/json", "User-Agent": f"kraal/{__version__}"},
                trust_env=False,
                follow_redirects=False,
                transport=self._transport,
            )
        return self._client


def _target(segments: tuple[str, ...], query: Query) -> str:
    return "/" + "/".join(map(encode_segment, segments)) + (f"?{urlencode(query)}" if query else "")


def _describe_error(error: Exception) -> str:
    """Return the reason why a request failed, preferably the operating system's error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
