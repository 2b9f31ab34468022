"""Sockets for kafka-python that are closed when a connection is refused.

kafka-python 3.0.12 leaves these sockets to the garbage collector. A member whose broker is down connects twice a
second, so a process could run out of file descriptors in a long outage before the next collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from socket import socket as Socket  # noqa: N812 - a method here is named socket, as in kafka-python
from typing import Any, ClassVar

from kafka.net.inet import KafkaNetSocket
from typing_extensions import override

DIRECT = "kraal-direct://"
"""Value of kafka-python's `proxy_url` that selects `DirectSocket`."""


class DirectSocket(KafkaNetSocket):  # type: ignore[misc]  # kafka-python is published without types
    """Opens a direct connection, and closes the socket if that fails."""

    SCHEMES: ClassVar = [DIRECT.removesuffix("://")]

    def __init__(self, proxy_url: str | None = None) -> None:
        super().__init__(proxy_url)
        self._socket: Socket | None = None

    @override
    def socket(self, *args: Any, **kwargs: Any) -> Socket:
        socket_: Socket = super().socket(*args, **kwargs)
        self._socket = socket_
        return socket_

    @override
    async def connect(
        self, net: Any, addrinfo: Any, socket_options: Sequence[Any] = (), timeout_at: float | None = None
    ) -> Socket:
        is_connected = False
        try:
            connected_socket: Socket = await super().connect(net, addrinfo, socket_options, timeout_at)
            is_connected = True
        finally:
            if not is_connected and self._socket is not None:
                self._socket.close()
        return connected_socket
