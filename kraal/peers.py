"""Client for HTTP requests to other workers, compatible with Connect's (RestClient, KIP-507).

Requests are independent: they use no cookies, redirects, proxies or other state. Persistent connections are closed
before the server of another worker closes them as idle, because that could interrupt a request. The result of a request
is a response to forward, the other worker's error, or an error with the reason.
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
"""Creates the SSL context for HTTPS on first use. Raises KraalError."""

CONNECT_TIMEOUT_S = 15.0
"""The default of Jetty's client, which Connect uses."""
RESPONSE_TIMEOUT_S = 100.0
"""Longer than the 90 s after which a worker responds that a request timed out."""
EVENT_STREAM = "text/event-stream"
_KEEP_ALIVE_S = 5.0
_MAX_IDLE_CONNECTIONS = 100


class PeerRefused(KraalError):
    """Another worker responded with an error, which is forwarded unchanged."""

    def __init__(
        self, status: int, error_code: int, text: str | None, *, retry_after: str | None = None
    ) -> None:
        super().__init__(text or "")
        self.status = status
        self.error_code = error_code
        self.text = text
        self.retry_after = retry_after


class PeerFailed(KraalError):
    """Another worker did not respond in time, or its response is invalid."""


@dataclass(frozen=True, slots=True)
class PeerResponse:
    """The parts of a successful response that are forwarded."""

    status: int
    body: bytes
    """The JSON body; may be empty."""
    location: str | None = None
    value: object = None
    """The parsed JSON body."""


class Peers:
    """Client for other workers with persistent connections. Must be used on one event loop.

    Without `tls`, the client trusts the system's certificates.
    """

    def __init__(self, tls: MakeContext | None = None) -> None:
        self._tls = tls
        self.waiting = 0
        """Number of pending requests, for a gauge."""
        self._transports: dict[str, httpx2.AsyncHTTPTransport] = {}

    async def request(
        self,
        method: str,
        url: str,
        target: bytes,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        timeout_s: float = RESPONSE_TIMEOUT_S,
        max_bytes: int | None = None,
    ) -> PeerResponse:
        """Send a request to the worker at `url`, and await its response for at most `timeout_s` seconds.

        `target` is the percent-encoded path and query, which is sent unchanged; `max_bytes` limits the body of the
        response; None means no limit. Raises PeerRefused, PeerFailed.
        """
        self.waiting += 1
        try:
            with _convert_errors(url, f"did not respond within {timeout_s:g} s"):
                request = _make_request(method, url, target, body, headers or {})
                async with asyncio.timeout(timeout_s):
                    response = await self._transport(request.url.scheme).handle_async_request(request)
                    try:
                        content = await _read_body(response, url, max_bytes)
                    finally:
                        await response.aclose()
        finally:
            self.waiting -= 1
        return _convert_response(url, response.status_code, response.headers, content)

    async def events(
        self, url: str, target: bytes, *, headers: Mapping[str, str] | None = None, silence_s: float
    ) -> AsyncGenerator[bytes]:
        """Request a stream of server-sent events from the worker at `url`, and yield its chunks.

        Close the generator to close the connection. Raises PeerRefused without a text if the response is not an event
        stream, and PeerFailed if the request fails or nothing is received for `silence_s` seconds.
        """
        request_headers = {"Accept": EVENT_STREAM, **(headers or {})}
        with _convert_errors(url, f"sent nothing for {silence_s:g} s"):
            request = _make_request("GET", url, target, b"", request_headers, silence_s=silence_s)
            response = await self._transport(request.url.scheme).handle_async_request(request)
            try:
                content_type = response.headers.get("content-type", "").partition(";")[0].strip()
                if response.status_code != HTTPStatus.OK or content_type != EVENT_STREAM:
                    raise PeerRefused(response.status_code, response.status_code, None)
                async for chunk in response.aiter_bytes():
                    yield chunk
            finally:
                await response.aclose()

    async def close(self) -> None:
        """Close the connections."""
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    def _transport(self, scheme: str) -> httpx2.AsyncHTTPTransport:
        import httpx2  # noqa: PLC0415 - see _convert_errors

        transport = self._transports.get(scheme)
        if transport is None:
            limits = httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=_MAX_IDLE_CONNECTIONS,
                keepalive_expiry=_KEEP_ALIVE_S,
            )
            # Certificates take long to load and are not required for plain HTTP.
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
    timeout_s: float = RESPONSE_TIMEOUT_S,
    tls: MakeContext | None = None,
) -> None:
    """Send a connector's task configs to the leader, which writes the configs.

    The request is signed unless `key` is None. Blocks until the leader responds, at most `timeout_s` seconds. Call on a
    thread without an event loop. Raises PeerRefused, PeerFailed; BadRequest for an unknown algorithm.
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
    timeout_s: float = RESPONSE_TIMEOUT_S,
    tls: MakeContext | None = None,
) -> None:
    """Request that the leader fence a connector's older tasks. Blocks and raises errors like `send_task_configs`.

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
            await peers.request(method, url, path.encode(), body=body, headers=headers, timeout_s=timeout_s)
        finally:
            await peers.close()

    asyncio.run(send())


def _make_request(
    method: str,
    url: str,
    target: bytes,
    body: bytes,
    headers: Mapping[str, str],
    *,
    silence_s: float | None = None,
) -> httpx2.Request:
    import httpx2  # noqa: PLC0415 - see _convert_errors

    request_headers = {"Accept": "application/json", "User-Agent": "kafka-connect", **headers}
    if body:
        request_headers["Content-Type"] = "application/json"
    prefix = urlsplit(url).path.rstrip("/").encode()
    return httpx2.Request(
        method,
        url,
        headers=request_headers,
        content=body or None,
        extensions={"target": prefix + target, "timeout": {"connect": CONNECT_TIMEOUT_S, "read": silence_s}},
    )


@contextmanager
def _convert_errors(url: str, timeout_message: str) -> Iterator[None]:
    """Convert the errors of a request to PeerFailed; `timeout_message` is the message for a timeout."""
    # Imported late, because a worker may send no requests and the import would delay its startup.
    import httpx2  # noqa: PLC0415 - see above

    try:
        yield
    except (PeerFailed, PeerRefused):
        raise
    except KraalError as exc:  # the SSL context cannot be created
        raise PeerFailed(f"Error trying to forward REST request: {exc}") from exc
    except (TimeoutError, httpx2.ReadTimeout) as exc:
        raise _io_error(f"{url} {timeout_message}") from exc
    except httpx2.ConnectTimeout as exc:
        raise _io_error(f"{url} did not accept a connection within {CONNECT_TIMEOUT_S:g} s") from exc
    except (httpx2.UnsupportedProtocol, httpx2.LocalProtocolError, httpx2.InvalidURL, ValueError) as exc:
        raise PeerFailed(f"Error trying to forward REST request: {exc}") from exc
    except (httpx2.HTTPError, OSError) as exc:
        raise _io_error(f"{_find_reason(exc)} ({url})") from exc


async def _read_body(response: httpx2.Response, url: str, max_bytes: int | None) -> bytes:
    """Read a body. Raises PeerFailed if it is too large."""
    if max_bytes is None:
        return await response.aread()
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > max_bytes:
            raise _io_error(f"the response of {url} has more than {max_bytes} bytes")
    return bytes(content)


def _convert_response(url: str, status: int, headers: Mapping[str, str], body: bytes) -> PeerResponse:
    """Convert a response. Raises PeerRefused, PeerFailed."""
    if status >= HTTPStatus.BAD_REQUEST:
        raise _parse_error(url, status, headers, body)
    if status == HTTPStatus.NO_CONTENT:
        return PeerResponse(status, b"")
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise PeerFailed(f"Unexpected status code when handling forwarded request: {status}")
    value = _parse(url, status, body) if body else None
    return PeerResponse(status, body, headers.get("location"), value)


def _parse_error(url: str, status: int, headers: Mapping[str, str], body: bytes) -> PeerRefused:
    """Parse the body of an error: `{"error_code":int,"message":str or null}`. Raises PeerFailed."""
    match _parse(url, status, body):
        case {"error_code": int(code), "message": (str() | None) as text}:
            return PeerRefused(status, code, text, retry_after=headers.get("retry-after"))
        case _:
            raise _io_error(f"{url} responded with {status} and an invalid error")


def _parse(url: str, status: int, body: bytes) -> object:
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise _io_error(f"{url} responded with {status} and a body that is not JSON") from exc
    return value


def _io_error(cause: str) -> PeerFailed:
    return PeerFailed(f"IO Error trying to forward REST request: {cause}")


def _find_reason(error: BaseException) -> str:
    """Return the reason for a failed request: the operating system's message, if there is one, or else the error's."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):  # its errno is not the system's
            return str(cause)
        if isinstance(cause, OSError) and cause.errno:
            return cause.strerror if cause.errno < 0 and cause.strerror else os.strerror(cause.errno)
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__
