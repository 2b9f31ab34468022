"""kafka-python's admin client with all of Connect's client settings, and without leaking its thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient
from kafka.net.compat import KafkaNetClient

from kraal.kafka.sockets import DIRECT


@contextmanager
def admin_client(
    options: Mapping[str, Any],
    *,
    bootstrap_timeout_s: float,
    client_class: type[KafkaAdminClient] = KafkaAdminClient,
) -> Iterator[Any]:
    """Connect to a cluster, and disconnect at the end of the block. Raises KafkaError, OSError.

    Args:
        options: kafka-python's options, as returned by `kafka_python_options`. The admin client rejects some options
            that its connections support (kafka-python 3.0.12, pinned), such as the timeouts for connecting.
        bootstrap_timeout_s: maximum time to wait for a broker.
        client_class: the class of the admin client.
    """
    connection_options = {
        key: value for key, value in options.items() if key not in client_class.DEFAULT_CONFIG
    }
    clients: list[Any] = []

    def create_client(**options_: Any) -> Any:
        clients.append(KafkaNetClient(**options_, **connection_options))
        return clients[-1]

    admin_options = {key: value for key, value in options.items() if key not in connection_options}
    extra_options = {"bootstrap_timeout_ms": round(bootstrap_timeout_s * 1000), "proxy_url": DIRECT}
    try:
        client = client_class(**{**admin_options, **extra_options, "kafka_client": create_client})
    except BaseException:
        for failed_client in clients:
            failed_client.close()
            # A client that has never connected to a broker does not stop its thread.
            failed_client._manager._net.stop()  # noqa: SLF001 - as in kafka-python's close
        raise
    try:
        yield client
    finally:
        client.close()
