from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from scripts.chaos_run.proxy import DELAY_S, Mode, Proxy

HOST = "127.0.0.1"


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets, each connection on a thread."""
    listener = socket.create_server((HOST, 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while piece := connection.recv(1024):
                    connection.sendall(piece)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


@pytest.fixture
def proxy(echo: int) -> Iterator[Proxy]:
    made = Proxy(echo)
    yield made
    made.close()


def connected(proxy: Proxy) -> socket.socket:
    return socket.create_connection((HOST, proxy.port), timeout=10)


def echoed(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(1024)


def is_broken(client: socket.socket) -> bool:
    try:
        client.sendall(b"x")
        return client.recv(1024) == b""
    except OSError:
        return True


def test_proxy_forwards_data(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert echoed(client, b"hello") == b"hello"


def test_proxy_delays_data(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert echoed(client, b"now") == b"now"
        proxy.set(Mode.DELAY)
        began_s = time.monotonic()
        assert echoed(client, b"later") == b"later"
        assert time.monotonic() - began_s >= 2 * DELAY_S - 0.05
        proxy.set(Mode.STRAIGHT)


def test_proxy_cuts_and_refuses_connections_until_reset(proxy: Proxy) -> None:
    with connected(proxy) as client:
        assert echoed(client, b"hello") == b"hello"
        proxy.set(Mode.CUT)
        assert is_broken(client)
    with connected(proxy) as client:
        assert is_broken(client)
    proxy.set(Mode.STRAIGHT)
    with connected(proxy) as client:
        assert echoed(client, b"again") == b"again"


def test_half_open_connections_are_silent_and_then_continue_or_break(proxy: Proxy) -> None:
    with connected(proxy) as first, connected(proxy) as second:
        assert (echoed(first, b"1"), echoed(second, b"2")) == (b"1", b"2")
        proxy.set(Mode.HALF_OPEN)
        for client in (first, second):
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                echoed(client, b"held back")
            client.settimeout(10)
        with connected(proxy) as third:
            third.sendall(b"3")
            proxy.set(Mode.STRAIGHT)
            assert third.recv(1024) == b"3", "what came meanwhile is passed on"
        assert first.recv(1024) == b"held back" or second.recv(1024) == b"held back"
        assert sorted([is_broken(first), is_broken(second)]) == [False, True]


def test_a_connection_without_a_listener_is_broken() -> None:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    made = Proxy(port)
    with connected(made) as client:
        assert is_broken(client)
    made.close()
