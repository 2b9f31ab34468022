"""Sends requests of the script, and returns the unprocessed responses of a worker."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote, urlsplit

DISTRIBUTED: Final = "distributed"
STANDALONE: Final = "standalone"
TIMEOUT_S: Final = 100.0
"""Time limit for a response. It is longer than Java's request timeout (90 s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholders:
    """The values of the script's placeholders on one worker.

    `TAG` is a suffix for names of topics and consumer groups, because workers share a broker. `DIR` is the directory of
    the worker, and `WORKER` its host and port.
    """

    tag: str
    directory: str
    authority: str

    def fill(self, text: str) -> str:
        """Replace the placeholders in a text of the script."""
        for name, value in self._values().items():
            text = text.replace(name, value)
        return text

    def replace_values(self, text: str) -> str:
        """Replace the worker's values, including percent-encoded values, with the placeholders."""
        for name, value in self._values().items():
            text = text.replace(value, name).replace(quote(value, safe=""), name)
        return text

    def _values(self) -> Mapping[str, str]:
        return {"DIR": self.directory, "TAG": self.tag, "WORKER": self.authority}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of the script. `target` is sent unchanged, so it must be percent-encoded."""

    method: str
    target: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def for_worker(self, placeholders: Placeholders) -> Request:
        """Return the request with the placeholders replaced by the values of a worker."""
        body = None if self.body is None else placeholders.fill(self.body.decode("utf-8", "surrogateescape"))
        return replace(
            self,
            target=placeholders.fill(self.target),
            body=None if body is None else body.encode("utf-8", "surrogateescape"),
            headers=tuple((name, placeholders.fill(value)) for name, value in self.headers),
        )

    @property
    def path(self) -> str:
        """The target without the query."""
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One response. `headers` maps lower-case names to values; repeated headers are joined by commas."""

    status: int
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""

    @property
    def json(self) -> Any:
        """The JSON value of the body, or None if the body is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def message(self) -> str | None:
        """The message of an error body in Connect's format, or None for other bodies."""
        value = self.json
        if isinstance(value, dict) and list(value) == ["error_code", "message"]:
            return str(value["message"])
        return None


def send(url: str, request: Request) -> Response:
    """Send one request over a new connection. Return a response with status 0 if the worker does not respond."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    try:
        header_names = {name.lower() for name, _ in request.headers}
        connection.putrequest(
            request.method, request.target, skip_host="host" in header_names, skip_accept_encoding=True
        )
        for name, value in request.headers:
            connection.putheader(name, value)
        if request.body is not None:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        http_response = connection.getresponse()
        body = http_response.read().decode("utf-8", "backslashreplace")
        headers: dict[str, str] = {}
        for name, value in http_response.getheaders():
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return Response(status=http_response.status, reason=http_response.reason, headers=headers, body=body)
    except (OSError, http.client.HTTPException) as error:
        return Response(status=0, reason=type(error).__name__, body=str(error))
    finally:
        connection.close()
