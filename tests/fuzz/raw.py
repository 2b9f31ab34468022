"""Sends raw HTTP requests, checks the responses, and formats shell commands that repeat the requests."""

from __future__ import annotations

import http.client
import shlex
import socket
import time
from dataclasses import dataclass
from typing import Final

from tests.fuzz.response_checks import NOT_HTTP, SLOW_S, WorkerResponse, faults

RESPONSE_TIMEOUT_S: Final = 12.0
"""Time limit for a response."""
_MAX_HEAD_BYTES: Final = 32_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRequest:
    """One request, byte by byte."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers, except headers that frame the body."""
    body: bytes = b""
    framing: bytes | None = None
    """Headers that frame the body (by default, a Content-Length). The body is sent unchanged."""
    is_broken: bool = False
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
    def is_well_formed(self) -> bool:
        """Whether the request is valid HTTP of a size that HTTP servers accept, so that Kraal must respond."""
        fits = len(self.head) < _MAX_HEAD_BYTES
        return fits and not self.is_broken and not any(_is_forbidden(header) for header in self.headers)


def _is_forbidden(header: tuple[bytes, bytes]) -> bool:
    """Return whether HTTP forbids a header because of its name or a control character in its value."""
    name, value = header
    is_valid_name = bool(name) and all(
        0x20 < byte < 0x7F and byte not in b'()<>@,;:\\"/[]?={}' for byte in name
    )
    has_control_characters = any(byte < 0x20 or byte == 0x7F for byte in value)
    return not is_valid_name or has_control_characters or value != value.strip()


def exchange(host: str, port: int, request: RawRequest) -> WorkerResponse | None:
    """Send a request and return the response, or None if the connection was closed without a response.

    Raises TimeoutError after `RESPONSE_TIMEOUT_S`, and http.client.HTTPException for an invalid response.
    """
    start_s = time.monotonic()
    with socket.create_connection((host, port), timeout=RESPONSE_TIMEOUT_S) as connection:
        try:
            connection.sendall(request.head + request.body)
            if request.is_broken:
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
    return WorkerResponse(
        method=request.method.decode("latin-1"),
        path=request.target.partition(b"?")[0].decode("latin-1"),
        status=response.status,
        headers={name.lower(): value for name, value in response.getheaders()},
        body=body,
        elapsed_s=time.monotonic() - start_s,
    )


def find_faults(host: str, port: int, request: RawRequest) -> list[str]:
    """Send a request, repeat it if it is slow, and return the faults of the response."""
    for is_last in (False, False, True):
        try:
            response = exchange(host, port, request)
        except TimeoutError:
            return [f"no response for {RESPONSE_TIMEOUT_S:g} s"]
        except http.client.HTTPException as error:
            return [f"invalid HTTP response: {error!r}"]
        if response is None:
            return ["no response"] if request.is_well_formed else []
        if not request.is_well_formed and (response.status, response.headers.get("content-type")) == NOT_HTTP:
            return []
        if is_last or response.elapsed_s <= SLOW_S:
            return list(faults(response))
    raise AssertionError("the last attempt returns")


def format_shell_command(request: RawRequest, host: str, port: int) -> str:
    """Return a shell command that repeats the request, with curl or, if curl cannot send it, over a plain socket."""
    if not request.is_well_formed or request.framing is not None:
        return f"printf '{_escape_octal(request.head + request.body)}' | nc -q 5 {host} {port}"
    parts = ["curl", "-i", "--path-as-is", "-X", request.method.decode()]
    for name, value in request.headers:
        parts += ["-H", f"$'{_escape(name + b': ' + value)}'"]
    if request.body:
        parts += ["--data-binary", "@-"]
    parts.append(shlex.quote(f"http://{host}:{port}{request.target.decode('latin-1')}"))
    command = " ".join(parts)
    return f"printf '{_escape_octal(request.body)}' | {command}" if request.body else command


def _escape_octal(data: bytes) -> str:
    """Escape bytes other than letters and digits in octal for printf."""
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"\\{byte:03o}" for byte in data)


def _escape(data: bytes) -> str:
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b"\\'" else f"\\x{byte:02x}" for byte in data
    )
