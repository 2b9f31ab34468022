"""Tests for connections to a chain in an unresponsive JVM."""

from __future__ import annotations

import socket
import threading

import pyarrow as pa
import pytest

from kraal.java_plugins.chains.connection import ChainAddress, ChainCancelled


@pytest.mark.parametrize("size", [1, 64 << 20], ids=["before a response", "during the request"])
def test_cancel_aborts_a_batch_in_a_frozen_jvm(size: int) -> None:
    cancelled = threading.Event()
    cancelled.set()
    batch = pa.record_batch({"value": pa.array([bytes(size)])})
    with (
        socket.create_server(("127.0.0.1", 0)) as server,  # accepts connections, but reads nothing
        ChainAddress(port=server.getsockname()[1], token="t", number=1).connect(cancelled) as connection,  # noqa: S106
        pytest.raises(ChainCancelled),
    ):
        connection.process(batch, ["value"])
