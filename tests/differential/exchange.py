"""Requests as they are written in the script, and answers as they come from a worker: whole, and nothing decided."""

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
"""Java's own limit for a request is 90 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """What is another on each worker, and stands in the script under one name.

    `TAG` in the script is a worker's own ending of names: those of topics and consumer groups are everybody's in
    the one broker. `DIR` is a directory of its own, `WORKER` is its host and port.
    """

    tag: str
    directory: str
    authority: str

    def fill(self, text: str) -> str:
        """Put what is ours into a text of the script."""
        for name, value in self._names().items():
            text = text.replace(name, value)
        return text

    def take_out(self, text: str) -> str:
        """Put the script's names back into a text of the worker; also where they are percent-encoded."""
        for name, value in self._names().items():
            text = text.replace(value, name).replace(quote(value, safe=""), name)
        return text

    def _names(self) -> Mapping[str, str]:
        return {"DIR": self.directory, "TAG": self.tag, "WORKER": self.authority}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of the script. `target` is sent as it is: percent-encoding is the script's."""

    method: str
    target: str
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def at(self, here: Here) -> Request:
        """Return the request as one worker gets it."""
        body = None if self.body is None else here.fill(self.body.decode("utf-8", "surrogateescape"))
        return replace(
            self,
            target=here.fill(self.target),
            body=None if body is None else body.encode("utf-8", "surrogateescape"),
            headers=tuple((name, here.fill(value)) for name, value in self.headers),
        )

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer. `headers` are by lower-case name, several of one name joined as HTTP allows."""

    status: int
    reason: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""

    @property
    def json(self) -> Any:
        """The body's JSON value; None when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def message(self) -> str | None:
        """The text of an error of Connect's shape; None when it is none."""
        value = self.json
        if isinstance(value, dict) and list(value) == ["error_code", "message"]:
            return str(value["message"])
        return None


def send(url: str, request: Request) -> Answer:
    """Send one request over a connection of its own. What comes to nothing is an answer of status 0."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    try:
        given = {name.lower() for name, _ in request.headers}
        connection.putrequest(
            request.method, request.target, skip_host="host" in given, skip_accept_encoding=True
        )
        for name, value in request.headers:
            connection.putheader(name, value)
        if request.body is not None:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        response = connection.getresponse()
        body = response.read().decode("utf-8", "backslashreplace")
        headers: dict[str, str] = {}
        for name, value in response.getheaders():
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return Answer(status=response.status, reason=response.reason, headers=headers, body=body)
    except (OSError, http.client.HTTPException) as error:
        return Answer(status=0, reason=type(error).__name__, body=str(error))
    finally:
        connection.close()
