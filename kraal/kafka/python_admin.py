"""kafka-python's admin client with all of Connect's client settings; its thread ends with it, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient
from kafka.net.compat import KafkaNetClient

from kraal.kafka.sockets import DIRECT


@contextmanager
def admin_client(
    options: Mapping[str, Any], *, bootstrap_s: float, kind: type[KafkaAdminClient] = KafkaAdminClient
) -> Iterator[Any]:
    """Connect to a cluster, and disconnect when the block ends. Raises KafkaError, OSError.

    Args:
        options: kafka-python's, as `kafka_python_options` returns them. The admin client refuses some that its own
            connections know (kafka-python 3.0.12, pinned), such as the timeouts for connecting.
        bootstrap_s: how long to wait for a broker.
        kind: the admin client's class.
    """
    of_connections = {key: value for key, value in options.items() if key not in kind.DEFAULT_CONFIG}
    made: list[Any] = []

    def connections(**given: Any) -> Any:
        made.append(KafkaNetClient(**given, **of_connections))
        return made[-1]

    own = {key: value for key, value in options.items() if key not in of_connections}
    limits = {"bootstrap_timeout_ms": round(bootstrap_s * 1000), "proxy_url": DIRECT}
    try:
        client = kind(**{**own, **limits, "kafka_client": connections})
    except BaseException:
        for each in made:  # a client that reached no broker does not end its thread
            each.close()
            each._manager._net.stop()  # noqa: SLF001 - as in its own close
        raise
    try:
        yield client
    finally:
        client.close()
