from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from scripts.chaos_run.proxy import DELAY_S, Mode, Proxy

HOST = "127.0.0.1"


@pytest.fixture
def echo_port() -> Iterator[int]:
    """Run an echo server with a thread per connection; yield its port."""
    listener = socket.create_server((HOST, 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                while chunk := connection.recv(1024):
                    connection.sendall(chunk)
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
def proxy(echo_port: int) -> Iterator[Proxy]:
    result = Proxy(echo_port)
    yield result
    result.close()


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection((HOST, proxy.port), timeout=10)


def send_and_receive(client: socket.socket, text: bytes) -> bytes:
    client.sendall(text)
    return client.recv(1024)


def is_broken(client: socket.socket) -> bool:
    try:
        client.sendall(b"x")
        return client.recv(1024) == b""
    except OSError:
        return True


def test_proxy_forwards_data(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert send_and_receive(client, b"hello") == b"hello"


def test_proxy_delays_data(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert send_and_receive(client, b"now") == b"now"
        proxy.set_mode(Mode.DELAY)
        start_s = time.monotonic()
        assert send_and_receive(client, b"later") == b"later"
        assert time.monotonic() - start_s >= 2 * DELAY_S - 0.05
        proxy.set_mode(Mode.STRAIGHT)


def test_proxy_cuts_and_refuses_connections_until_reset(proxy: Proxy) -> None:
    with connect(proxy) as client:
        assert send_and_receive(client, b"hello") == b"hello"
        proxy.set_mode(Mode.CUT)
        assert is_broken(client)
    with connect(proxy) as client:
        assert is_broken(client)
    proxy.set_mode(Mode.STRAIGHT)
    with connect(proxy) as client:
        assert send_and_receive(client, b"again") == b"again"


def test_half_open_connections_stall_and_then_continue_or_break(proxy: Proxy) -> None:
    with connect(proxy) as first, connect(proxy) as second:
        assert (send_and_receive(first, b"1"), send_and_receive(second, b"2")) == (b"1", b"2")
        proxy.set_mode(Mode.HALF_OPEN)
        for client in (first, second):
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                send_and_receive(client, b"held back")
            client.settimeout(10)
        with connect(proxy) as third:
            third.sendall(b"3")
            proxy.set_mode(Mode.STRAIGHT)
            assert third.recv(1024) == b"3", "data received meanwhile is forwarded"
        assert first.recv(1024) == b"held back" or second.recv(1024) == b"held back"
        assert sorted([is_broken(first), is_broken(second)]) == [False, True]


def test_connection_without_a_target_is_aborted() -> None:
    with socket.socket() as unused_socket:
        unused_socket.bind((HOST, 0))
        port = unused_socket.getsockname()[1]
    result = Proxy(port)
    with connect(result) as client:
        assert is_broken(client)
    result.close()


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_closing_aborts_connections_that_are_not_forwarded_yet(echo_port: int) -> None:
    proxy = Proxy(echo_port)
    proxy.set_mode(Mode.HALF_OPEN)
    with connect(proxy) as client:
        client.sendall(b"x")
        proxy.close()
        del proxy
        gc.collect()
        with suppress(ConnectionResetError):
            assert client.recv(1024) == b""
