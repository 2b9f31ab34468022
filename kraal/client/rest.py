"""Client of Connect's REST API; sends one request at a time and retries requests during rebalances.

Redirects (which would send credentials elsewhere), proxies and netrc are not used. A rejected request raises an error
with the worker's message. A request is retried only if the worker did not carry it out: 409 because of a rebalance, 503
with `Retry-After`, and the 500 that Java workers return for GET requests during a rebalance.
Source: ConnectExceptionMapper, ErrorMessage (Kafka 4.4.0); tests/golden/rest.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

from kraal import __version__
from kraal.client import hints
from kraal.client.target import Target
from kraal.core.errors import KraalError
from kraal.core.printable import join_lines
from kraal.core.progress import Progress
from kraal.core.rest_requests import encode_segment, retry_delay_s

if TYPE_CHECKING:
    import httpx2

_CONNECT_TIMEOUT_S = 15.0
_MAX_TEXT_LENGTH = 500
"""Maximum length of the text shown from a response that is not from Connect."""
_UNEXPECTED_RESPONSE = "returned an unexpected response; check that the URL is that of a Connect worker"
_UNKNOWN_ENDPOINT_TEXT = "HTTP 404 Not Found"


class RequestRejected(KraalError):
    """Raised if a worker rejects a request; `text` is the worker's message, possibly with several lines."""

    def __init__(self, status: int, text: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.text = text

    @property
    def is_unknown_endpoint(self) -> bool:
        """Whether the endpoint, as opposed to the resource, does not exist."""
        return self.status == HTTPStatus.NOT_FOUND and self.text == _UNKNOWN_ENDPOINT_TEXT

    @property
    def is_not_found(self) -> bool:
        """Whether the resource, as opposed to the endpoint, does not exist."""
        return self.status == HTTPStatus.NOT_FOUND and not self.is_unknown_endpoint


class NoResponse(KraalError):
    """Raised if no valid response was received; whether the request took effect is unknown."""


class Unreachable(KraalError):
    """Raised if connecting to the worker failed, so that further requests would fail, too."""


class Clock:
    """Real time, replaced by tests."""

    def now(self) -> float:
        """Return the monotonic time in seconds."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Sleep for a number of seconds."""
        time.sleep(seconds)


_REAL_CLOCK = Clock()


class Rest:
    """Connection to a worker. Not thread-safe. Use as a context manager."""

    def __init__(self, target: Target, *, clock: Clock = _REAL_CLOCK) -> None:
        self.target = target
        self.clock = clock
        self._client: httpx2.Client | None = None

    def __enter__(self) -> Self:
        """Return the client; the connection is opened by the first request."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def get(self, *segments: str, query: Sequence[tuple[str, str]] = ()) -> Any:
        """GET a path of decoded segments and return a JSON object. Raises the same errors as `ask`."""
        return self._check_type(dict, self.ask("GET", *segments, query=query))

    def get_list(self, *segments: str, query: Sequence[tuple[str, str]] = ()) -> list[Any]:
        """GET a path as `get` does and return a JSON array. Raises the same errors as `ask`."""
        array: list[Any] = self._check_type(list, self.ask("GET", *segments, query=query))
        return array

    def get_with_headers(self, *segments: str) -> tuple[Any, Mapping[str, str]]:
        """GET a path as `get` does; return a JSON object and the response headers, which are case-insensitive."""
        response = self._send_with_retries("GET", "/" + "/".join(map(encode_segment, segments)), None)
        return self._check_type(dict, self._parse(response)), response.headers

    def names(self) -> list[str]:
        """Return the sorted names of all connectors. Raises the same errors as `ask`."""
        return sorted(map(str, self.get_list("connectors")))

    def ask(
        self, method: str, *segments: str, body: object = None, query: Sequence[tuple[str, str]] = ()
    ) -> Any:
        """Send a request, with retries for up to `Target.retry_s`; return the JSON body, or None for an empty body.

        Raises RequestRejected, NoResponse, Unreachable.
        """
        path = "/" + "/".join(map(encode_segment, segments)) + (f"?{urlencode(query)}" if query else "")
        return self._parse(self._send_with_retries(method, path, body))

    def _send_with_retries(self, method: str, path: str, body: object) -> httpx2.Response:
        """Send a request, retrying as needed. Raises RequestRejected, NoResponse, Unreachable."""
        deadline = self.clock.now() + self.target.retry_s
        result = self._try_send(method, path, body, deadline)
        if isinstance(result, float):
            with Progress(f"Waiting for {self.target.url} to accept a request"):
                while isinstance(result, float):
                    self.clock.pause(result)
                    result = self._try_send(method, path, body, deadline)
        return result

    def _try_send(self, method: str, path: str, body: object, deadline: float) -> httpx2.Response | float:
        """Send a request once; return the response, or the delay before a retry. Raises as `ask` does."""
        response = self._send(method, path, body)
        if HTTPStatus.OK <= response.status_code < HTTPStatus.MULTIPLE_CHOICES:
            return response
        text = _error_message(response)
        pause_s = retry_delay_s(method, response.status_code, text, response.headers.get("Retry-After"))
        if pause_s is None or self.clock.now() + pause_s > deadline:
            raise self._to_rejection(response, text, _resource(path), was_retried=pause_s is not None)
        return pause_s

    def _check_type(self, expected_type: type, value: Any) -> Any:
        if not isinstance(value, expected_type):
            raise NoResponse(f"{self.target.url} {_UNEXPECTED_RESPONSE}")
        return value

    def _send(self, method: str, path: str, body: object) -> httpx2.Response:
        import httpx2  # noqa: PLC0415 - imported late because --help does not need it

        url = self.target.url
        closed_hint = hints.IS_HTTPS if url.startswith("http:") else ""
        try:
            return self._open_client().request(
                method,
                url + path,
                content=None if body is None else json.dumps(body).encode(),
                headers={} if body is None else {"Content-Type": "application/json"},
            )
        except httpx2.ConnectTimeout as exc:
            text = f"Timed out connecting to {url} after {_CONNECT_TIMEOUT_S:g} s"
            raise Unreachable(text, hint=hints.ROUTE) from exc
        except httpx2.ConnectError as exc:
            cause = _root_error(exc)
            hint = hints.connection_hint(cause, url)
            raise Unreachable(f"Cannot connect to {url}: {_describe_error(cause)}", hint=hint) from exc
        except httpx2.TimeoutException as exc:
            raise NoResponse(
                f"{url} did not respond within {self.target.timeout_s:g} s; the request may still take effect",
                hint=hints.SLOW,
            ) from exc
        except httpx2.RemoteProtocolError as exc:
            raise NoResponse(
                f"{url} closed the connection without a response: {exc}", hint=closed_hint
            ) from exc
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            text = f"Request to {url} failed: {str(exc) or type(exc).__name__}"
            raise NoResponse(text, hint=closed_hint if isinstance(exc, httpx2.NetworkError) else "") from exc

    def _open_client(self) -> httpx2.Client:
        if self._client is None:
            import httpx2  # noqa: PLC0415 - imported late because --help does not need it

            target = self.target
            auth = (
                None
                if target.user is None
                else (target.user, target.password.value if target.password else "")
            )
            self._client = httpx2.Client(
                auth=auth,
                verify=create_ssl_context(target),
                timeout=httpx2.Timeout(target.timeout_s, connect=min(_CONNECT_TIMEOUT_S, target.timeout_s)),
                headers={"Accept": "application/json", "User-Agent": f"kraal/{__version__}"},
                trust_env=False,
                follow_redirects=False,
            )
        return self._client

    def _parse(self, response: httpx2.Response) -> Any:
        if not response.content:
            return None
        try:
            return response.json()
        except (ValueError, RecursionError) as exc:
            raise NoResponse(f"{self.target.url} {_UNEXPECTED_RESPONSE}") from exc

    def _to_rejection(
        self, response: httpx2.Response, text: str, resource: str, *, was_retried: bool
    ) -> RequestRejected:
        status = response.status_code
        reason = join_lines(text)
        if response.has_redirect_location:
            reason = f"redirected to {response.headers['Location']}; set --url to it"
        message = f"{self.target.url} returned {status}: {reason}"
        if status == HTTPStatus.UNAUTHORIZED:
            message += " (set credentials with KRAAL_USER and KRAAL_PASSWORD, or in the URL)"
        elif was_retried:
            message += f" (retried for {self.target.retry_s:g} s)"
        is_unknown_endpoint = status == HTTPStatus.NOT_FOUND and text == _UNKNOWN_ENDPOINT_TEXT
        hint = hints.refusal_hint(
            status, text, resource, is_unknown_endpoint=is_unknown_endpoint, was_retried=was_retried
        )
        return RequestRejected(status, text, message, hint=hint)


def _resource(path: str) -> str:
    """Return the first segment of a path, such as `connectors`."""
    return path.removeprefix("/").partition("?")[0].partition("/")[0]


def _error_message(response: httpx2.Response) -> str:
    try:
        content = response.json()
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and isinstance(content.get("message"), str):
        return str(content["message"])
    is_page = "html" in response.headers.get("Content-Type", "")
    text = "" if is_page or content is not None else response.text.strip()[:_MAX_TEXT_LENGTH]
    return text or response.reason_phrase or "no message"


def _root_error(error: Exception) -> BaseException:
    """Return the error of the operating system or OpenSSL that caused a failed connection, or else the error itself."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError) or (isinstance(cause, OSError) and cause.strerror):
            return cause
        cause = cause.__cause__ or cause.__context__
    return error


def _describe_error(cause: BaseException) -> str:
    """Return the reason for a failed connection."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        if hints.is_hostname_mismatch(cause):
            return f"certificate is for another host ({cause.verify_message})"
        if hints.has_expired(cause):
            return f"certificate has expired ({cause.verify_message})"
        return (
            f"certificate is not trusted ({cause.verify_message}); specify your CA certificate with --cacert"
        )
    reason = cause.strerror if isinstance(cause, OSError) else None
    return reason or str(cause) or type(cause).__name__


def create_ssl_context(target: Target) -> ssl.SSLContext:
    """Return the TLS context for a target. Raises Unreachable if its CA certificates cannot be read.

    For http, the context has no certificates, because loading the system's certificates takes 30 ms.
    """
    if not target.url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=target.cacert)
    except OSError as exc:  # ssl.SSLError is an OSError
        raise Unreachable(f"Cannot read --cacert {target.cacert}: {exc.strerror or exc}") from exc
