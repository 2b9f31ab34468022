"""Raw requests: sent over a separate connection, checked, and converted to a command that reproduces them."""

from __future__ import annotations

import http.client
import shlex
import socket
import time
from dataclasses import dataclass
from typing import Final

from tests.fuzz.verdicts import HANG_TIMEOUT_S, NOT_HTTP, SLOW_S, Answer, faults

RESPONSE_TIMEOUT_S: Final = 2 * HANG_TIMEOUT_S
"""Time limit for a response."""
_LARGEST_HEAD: Final = 32_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRequest:
    """One request, byte by byte."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers, without those that frame the body."""
    body: bytes = b""
    framing: bytes | None = None
    """Headers that frame the body instead of its actual length; the body is sent unchanged."""
    broken: bool = False
    """Whether the framing is invalid or announces more bytes than are sent."""

    @property
    def head(self) -> bytes:
        """Bytes sent before the body."""
        if self.framing is not None:
            framing = self.framing
        else:
            framing = b"Content-Length: %d\r\n" % len(self.body) if self.body else b""
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in self.headers)
        start = self.method + b" " + self.target + b" HTTP/1.1\r\nHost: fuzz\r\nConnection: close\r\n"
        return start + lines + framing + b"\r\n"

    @property
    def well_formed(self) -> bool:
        """Whether it is valid HTTP of a size accepted by HTTP servers, so that Kraal must respond."""
        fits = len(self.head) < _LARGEST_HEAD
        return fits and not self.broken and not any(_forbidden(each) for each in self.headers)


def _forbidden(header: tuple[bytes, bytes]) -> bool:
    """Return whether HTTP forbids a header because of its name or a control character in its value."""
    name, value = header
    visible = bool(name) and all(0x20 < byte < 0x7F and byte not in b'()<>@,;:\\"/[]?={}' for byte in name)
    controls = any(byte < 0x20 or byte == 0x7F for byte in value)
    return not visible or controls or value != value.strip()


def exchange(host: str, port: int, request: RawRequest) -> Answer | None:
    """Send a request and return the response; None if the connection was closed without one.

    Raises TimeoutError after `RESPONSE_TIMEOUT_S`, and http.client.HTTPException for an invalid response.
    """
    began = time.monotonic()
    with socket.create_connection((host, port), timeout=RESPONSE_TIMEOUT_S) as connection:
        try:
            connection.sendall(request.head + request.body)
            if request.broken:
                connection.shutdown(
                    socket.SHUT_WR
                )  # no more bytes follow, regardless of the announced length
        except OSError:
            pass  # the server closed its side; there may still be a response
        response = http.client.HTTPResponse(connection, method=request.method.decode("latin-1"))
        try:
            response.begin()
            body = response.read()
        except (http.client.RemoteDisconnected, ConnectionResetError):
            return None
    return Answer(
        method=request.method.decode("latin-1"),
        path=request.target.partition(b"?")[0].decode("latin-1"),
        status=response.status,
        headers={name.lower(): value for name, value in response.getheaders()},
        body=body,
        took_s=time.monotonic() - began,
    )


def find_faults(host: str, port: int, request: RawRequest) -> list[str]:
    """Send a request and return the faults of the response; repeat slow requests."""
    for last in (False, False, True):
        try:
            answer = exchange(host, port, request)
        except TimeoutError:
            return [f"no response for {RESPONSE_TIMEOUT_S:g} s"]
        except http.client.HTTPException as error:
            return [f"what came is no answer: {error!r}"]
        if answer is None:
            return ["no response"] if request.well_formed else []
        if not request.well_formed and (answer.status, answer.headers.get("content-type")) == NOT_HTTP:
            return []
        if last or not SLOW_S < answer.took_s < HANG_TIMEOUT_S:
            return list(faults(answer))
    raise AssertionError("the last one returns")


def curl(request: RawRequest, host: str, port: int) -> str:
    """Return a shell command that repeats the request, with curl or, if curl cannot send it, over a plain socket."""
    if not request.well_formed or request.framing is not None:
        return f"printf '{_octal(request.head + request.body)}' | nc -q 5 {host} {port}"
    parts = ["curl", "-i", "--path-as-is", "-X", request.method.decode()]
    for name, value in request.headers:
        parts += ["-H", f"$'{_escaped(name + b': ' + value)}'"]
    if request.body:
        parts += ["--data-binary", "@-"]
    parts.append(shlex.quote(f"http://{host}:{port}{request.target.decode('latin-1')}"))
    line = " ".join(parts)
    return f"printf '{_octal(request.body)}' | {line}" if request.body else line


def _octal(data: bytes) -> str:
    """Escape bytes other than letters and digits in octal for printf."""
    return "".join(chr(each) if chr(each).isalnum() and each < 0x80 else f"\\{each:03o}" for each in data)


def _escaped(data: bytes) -> str:
    return "".join(
        chr(each) if 0x20 <= each < 0x7F and each not in b"\\'" else f"\\x{each:02x}" for each in data
    )
