"""The token-protected callback server, on which this process accepts calls from Spark's JVM.

PySpark starts the server with the first function that the JVM calls, for example in `foreachBatch`, but without a
token: py4j's Java side drops the token when the port changes. Any local process could then connect. So this module
starts the server with a new token, and replaces Java's client with one that sends the token.
Source: ensure_callback_server_started (PySpark 4.2.0), PythonClient.copyWith (py4j 0.10.9.9).
"""

from __future__ import annotations

import threading
from secrets import token_hex
from typing import Any, Final

_START_LOCK: Final = threading.Lock()
_IDLE_TIMEOUT_S: Final = 30
"""The value of CallbackClient.DEFAULT_MIN_CONNECTION_TIME in py4j."""


def require_token() -> None:
    """Make PySpark start its callback server with `start_with_token`. PySpark must be imported."""
    from pyspark import java_gateway  # noqa: PLC0415 - heavy; loaded after the start of Spark

    module: Any = java_gateway
    module.ensure_callback_server_started = start_with_token


def start_with_token(gateway: Any) -> None:
    """Start the callback server of PySpark's gateway unless it is running. Thread-safe. Raises py4j's errors."""
    from pyspark import java_gateway  # noqa: PLC0415 - as above

    module: Any = java_gateway
    with _START_LOCK:
        # The gateway resolves unknown attributes in the JVM.
        if gateway.__dict__.get("_callback_server") is not None:
            return
        token = token_hex(32)
        parameters = gateway.callback_server_parameters
        parameters.auth_token = token
        parameters.eager_load = parameters.daemonize = parameters.daemonize_connections = True
        parameters.port = 0
        gateway.start_callback_server(parameters)
        server = gateway._callback_server
        try:
            server.port = gateway._python_proxy_port = server.server_socket.getsockname()[1]  # noqa: SLF001
            java_server = module.JavaObject("GATEWAY_SERVER", gateway._gateway_client)  # noqa: SLF001
            _set_client(java_server, gateway.jvm, server.port, token)
        except BaseException:
            gateway.shutdown_callback_server()
            gateway._callback_server = None
            raise


def _set_client(java_server: Any, jvm: Any, port: int, token: str) -> None:
    """Replace the JVM's callback client with one for this port and token."""
    address = java_server.getCallbackClient().getAddress()
    java_server.resetCallbackClient(address, port)  # closes the connections of the previous client
    java_gateway = java_server.getGateway()
    client = jvm.py4j.PythonClient(
        java_gateway,
        None,
        port,
        address,
        _IDLE_TIMEOUT_S,
        jvm.java.util.concurrent.TimeUnit.SECONDS,
        jvm.javax.net.SocketFactory.getDefault(),
        java_server,
        True,  # noqa: FBT003 - Java: enable memory management
        0,
        token,
    )
    field = java_gateway.getClass().getDeclaredField("cbClient")  # the setters drop the token
    field.setAccessible(True)
    field.set(java_gateway, client)
