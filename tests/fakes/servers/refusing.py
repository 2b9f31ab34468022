"""An address that refuses connections."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def refusing_address() -> Iterator[str]:
    """Reserve a port of the loopback interface that refuses connections; yield `HOST:PORT`."""
    with socket.socket() as reserved_socket:
        reserved_socket.bind(("127.0.0.1", 0))  # does not listen
        host, port = reserved_socket.getsockname()
        yield f"{host}:{port}"
