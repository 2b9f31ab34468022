"""HTTP requests to other workers, as Connect's workers send them (RestClient, KIP-507).

Requests are independent: no cookies, redirects, proxies or state of earlier callers. Only connections are kept, and
closed before a worker's server closes them as idle, so that none ends during a request. The result is an answer to
pass on, the other worker's error, or an error with the reason.
Source: RestClient (Kafka 4.4.0).
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from kraal.core.errors import KraalError
from kraal.core.ids import Config, ConnectorName
from kraal.protocol.json_bytes import to_bytes
from kraal.protocol.signature import signature_headers

if TYPE_CHECKING:
    import httpx2

MakeContext = Callable[[], ssl.SSLContext]
"""Makes the TLS context for HTTPS on first use. Raises KraalError."""

CONNECT_TIMEOUT_S = 15.0
"""Seconds, as in Jetty's client, which Connect uses."""
ANSWER_TIMEOUT_S = 100.0
"""Seconds; longer than the 90 s after which a worker itself answers that a request timed out."""
EVENT_STREAM = "text/event-stream"
_IDLE_S = 5.0
_KEPT_CONNECTIONS = 100


class PeerRefused(KraalError):
    """Another worker answered with an error, which is passed on unchanged."""

    def __init__(
        self, status: int, error_code: int, text: str | None, *, retry_after: str | None = None
    ) -> None:
        super().__init__(text or "")
        self.status = status
        self.error_code = error_code
        self.text = text
        self.retry_after = retry_after


class PeerFailed(KraalError):
    """Another worker could not be reached in time, or its answer is unusable."""


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """The parts of a successful answer that are passed on."""

    status: int
    body: bytes
    """JSON, or empty."""
    location: str | None = None
    value: object = None
    """The parsed JSON body."""


class Peers:
    """Client for other workers with persistent connections. Use it on one event loop only.

    Without `tls` it trusts the system's certificates.
    """

    def __init__(self, tls: MakeContext | None = None) -> None:
        self._tls = tls
        self.waiting = 0
        """Number of requests that wait for an answer: a gauge."""
        self._transports: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def ask(
        self,
        method: str,
        url: str,
        target: bytes,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
        max_bytes: int | None = None,
    ) -> PeerAnswer:
        """Send one request to the worker at `url`, and await its answer at most `timeout_s` seconds.

        `target` is the percent-encoded path and query, sent unchanged; `max_bytes` limits the answer's body, None: no
        limit. Raises PeerRefused, PeerFailed.
        """
        self.waiting += 1
        try:
            with _failures(url, f"gave no answer within {timeout_s:g} s"):
                request = _request(method, url, target, body, headers or {})
                async with asyncio.timeout(timeout_s):
                    response = await self._transport(request.url.scheme).handle_async_request(request)
                    try:
                        content = await _content(response, url, max_bytes)
                    finally:
                        await response.aclose()
        finally:
            self.waiting -= 1
        return _answer(url, response.status_code, response.headers, content)

    async def events(
        self, url: str, target: bytes, *, headers: Mapping[str, str] | None = None, silence_s: float
    ) -> AsyncGenerator[bytes]:
        """Send a GET for server-sent events to the worker at `url`, and yield the pieces of its answer until it ends.

        Close the generator to end the connection. Raises PeerRefused, without a text, for any other answer than a
        stream of events; PeerFailed, also when nothing arrives for `silence_s` seconds.
        """
        sent = {"Accept": EVENT_STREAM, **(headers or {})}
        with _failures(url, f"sent nothing for {silence_s:g} s"):
            request = _request("GET", url, target, b"", sent, silence_s=silence_s)
            response = await self._transport(request.url.scheme).handle_async_request(request)
            try:
                kind = response.headers.get("content-type", "").partition(";")[0].strip()
                if response.status_code != HTTPStatus.OK or kind != EVENT_STREAM:
                    raise PeerRefused(response.status_code, response.status_code, None)
                async for piece in response.aiter_bytes():
                    yield piece
            finally:
                await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    def _transport(self, scheme: str) -> httpx2.AsyncHTTPTransport:
        import httpx2  # noqa: PLC0415 - see _failures

        transport = self._transports.get(scheme)
        if transport is None:
            limits = httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=_KEPT_CONNECTIONS,
                keepalive_expiry=_IDLE_S,
            )
            # Certificates take long to load, and plain HTTP does not need them.
            verify = self._tls() if scheme == "https" and self._tls is not None else scheme == "https"
            transport = httpx2.AsyncHTTPTransport(verify=verify, trust_env=False, limits=limits)
            self._transports[scheme] = transport
        return transport


def send_task_configs(
    leader_url: str,
    name: ConnectorName,
    configs: Sequence[Config],
    *,
    key: bytes | None,
    algorithm: str,
    timeout_s: float = ANSWER_TIMEOUT_S,
    tls: MakeContext | None = None,
) -> None:
    """Have the leader write a connector's task configs; signed, unless `key` is None.

    Blocks until the leader has answered, at most `timeout_s` seconds; any thread without an event loop.
    Raises PeerRefused, PeerFailed; BadRequest for an unknown algorithm.
    Source: DistributedHerder.publishConnectorTaskConfigs.
    """
    body = to_bytes([dict(config) for config in configs])
    headers = {} if key is None else signature_headers(key, body, algorithm)
    _send("POST", leader_url, f"/connectors/{quote(name, safe='')}/tasks", body, headers, timeout_s, tls)


def send_fence(
    leader_url: str,
    name: ConnectorName,
    *,
    key: bytes | None,
    algorithm: str,
    timeout_s: float = ANSWER_TIMEOUT_S,
    tls: MakeContext | None = None,
) -> None:
    """Have the leader fence a connector's older tasks; signed, unless `key` is None. As `send_task_configs`.

    Source: DistributedHerder.fenceZombieSourceTasks.
    """
    headers = {} if key is None else signature_headers(key, b"", algorithm)
    _send("PUT", leader_url, f"/connectors/{quote(name, safe='')}/fence", b"", headers, timeout_s, tls)


def _send(
    method: str,
    url: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    timeout_s: float,
    tls: MakeContext | None,
) -> None:
    async def send() -> None:
        peers = Peers(tls)
        try:
            await peers.ask(method, url, path.encode(), body=body, headers=headers, timeout_s=timeout_s)
        finally:
            await peers.close()

    asyncio.run(send())


def _request(
    method: str,
    url: str,
    target: bytes,
    body: bytes,
    headers: Mapping[str, str],
    *,
    silence_s: float | None = None,
) -> httpx2.Request:
    import httpx2  # noqa: PLC0415 - see _failures

    sent = {"Accept": "application/json", "User-Agent": "kafka-connect", **headers}
    if body:
        sent["Content-Type"] = "application/json"
    prefix = urlsplit(url).path.rstrip("/").encode()
    return httpx2.Request(
        method,
        url,
        headers=sent,
        content=body or None,
        extensions={"target": prefix + target, "timeout": {"connect": CONNECT_TIMEOUT_S, "read": silence_s}},
    )


@contextmanager
def _failures(url: str, silent: str) -> Iterator[None]:
    """Turn the errors of a request into PeerFailed; `silent` is the message for a timeout."""
    # Imported late: a worker that sends no requests need not wait for it at start.
    import httpx2  # noqa: PLC0415 - see above

    try:
        yield
    except (PeerFailed, PeerRefused):
        raise
    except KraalError as exc:  # no TLS context
        raise PeerFailed(f"Error trying to forward REST request: {exc}") from exc
    except (TimeoutError, httpx2.ReadTimeout) as exc:
        raise _io_error(f"{url} {silent}") from exc
    except httpx2.ConnectTimeout as exc:
        raise _io_error(f"{url} took no connection within {CONNECT_TIMEOUT_S:g} s") from exc
    except (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, httpx2.InvalidURL, ValueError) as exc:
        raise PeerFailed(f"Error trying to forward REST request: {exc}") from exc
    except (httpx2.HTTPError, OSError) as exc:
        raise _io_error(f"{_reason(exc)} ({url})") from exc


async def _content(response: httpx2.Response, url: str, max_bytes: int | None) -> bytes:
    """Read a body. Raises PeerFailed if it is too large."""
    if max_bytes is None:
        return await response.aread()
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > max_bytes:
            raise _io_error(f"the answer of {url} has more than {max_bytes} bytes")
    return bytes(content)


def _answer(url: str, status: int, headers: Mapping[str, str], body: bytes) -> PeerAnswer:
    """Convert a response. Raises PeerRefused, PeerFailed."""
    if status >= HTTPStatus.BAD_REQUEST:
        raise _refusal(url, status, headers, body)
    if status == HTTPStatus.NO_CONTENT:
        return PeerAnswer(status, b"")
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise PeerFailed(f"Unexpected status code when handling forwarded request: {status}")
    value = _parse(url, status, body) if body else None
    return PeerAnswer(status, body, headers.get("location"), value)


def _refusal(url: str, status: int, headers: Mapping[str, str], body: bytes) -> PeerRefused:
    """Read the body of an error: `{"error_code":int,"message":str or null}`. Raises PeerFailed."""
    match _parse(url, status, body):
        case {"error_code": int(code), "message": (str() | None) as text}:
            return PeerRefused(status, code, text, retry_after=headers.get("retry-after"))
        case _:
            raise _io_error(f"{url} answered {status} without an error that can be read")


def _parse(url: str, status: int, body: bytes) -> object:
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise _io_error(f"{url} answered {status} with a body that is not JSON") from exc
    return value


def _io_error(cause: str) -> PeerFailed:
    return PeerFailed(f"IO Error trying to forward REST request: {cause}")


def _reason(error: BaseException) -> str:
    """Return the reason of a failed request, in the system's words if there are any."""
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, ssl.SSLError):  # its number is not a system error
            return str(below)
        if isinstance(below, OSError) and below.errno:
            return below.strerror if below.errno < 0 and below.strerror else os.strerror(below.errno)
        below = below.__cause__ or below.__context__
    return str(error) or type(error).__name__
