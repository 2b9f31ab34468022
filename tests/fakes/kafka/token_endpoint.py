"""A token endpoint on loopback for OAuth 2.0 client credentials."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override


@dataclass
class TokenEndpoint:
    """The responses of the endpoint, and the requests that it received."""

    url: str = ""
    status: int = 200
    respond: Callable[[int], object] = lambda number: {"access_token": f"token-{number}", "expires_in": 100}
    """Receives the number of the request, starting at 1."""
    requests: list[tuple[str | None, str]] = field(default_factory=list)
    """The Authorization header and body of each request."""
    received: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once for each request."""


@contextmanager
def token_endpoint() -> Iterator[TokenEndpoint]:
    """Run an endpoint until the end of the block."""
    endpoint = TokenEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            endpoint.requests.append((self.headers["Authorization"], body))
            content = json.dumps(endpoint.respond(len(endpoint.requests))).encode()
            self.send_response(endpoint.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            endpoint.received.release()

        @override
        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_port}/token"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join(5)
