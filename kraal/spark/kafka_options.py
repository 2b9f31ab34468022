"""Kafka client settings for tasks: the framework's defaults, the worker's, the connector's; three dialects.

Users write Java's names everywhere (`producer.linger.ms`, `consumer.override.max.poll.records`). Spark takes
them with `kafka.` before them; the group member is librdkafka, which knows other names and knows some not at
all. Source: Worker.baseProducerConfigs, Worker.baseConsumerConfigs; librdkafka's CONFIGURATION.md (2.x).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kraal.ids import TaskId

log = logging.getLogger(__name__)

_CLIENT_PREFIXES = ("security.", "ssl.", "sasl.")
"""Settings without a prefix that every client of the worker shares."""

_PRODUCER_DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "max.block.ms": "9223372036854775807",
    "delivery.timeout.ms": "2147483647",
    "request.timeout.ms": "300000",
    "linger.ms": "5",
    "batch.size": "262144",
    "compression.type": "lz4",
    "buffer.memory": "67108864",
}
"""Connect's, and the batching that decides the throughput (SPARK.md)."""

_CONSUMER_DEFAULTS = {
    "max.partition.fetch.bytes": "16777216",
    "fetch.max.bytes": "67108864",
    "max.poll.records": "20000",
    "receive.buffer.bytes": "1048576",
}

SHARED_CLIENT = "connector-producer-shared"
"""Client id of the producer that small batches of many tasks share; a producer each would cost threads."""

_NOT_FOR_SPARK = frozenset(
    {
        "auto.offset.reset",
        "bootstrap.servers",
        "client.id",
        "enable.auto.commit",
        "group.id",
        "group.instance.id",
        "interceptor.classes",
        "key.deserializer",
        "key.serializer",
        "value.deserializer",
        "value.serializer",
        "partition.assignment.strategy",
    }
)
"""Names that Spark refuses or sets itself."""

_MEMBER_SAME = frozenset(
    {
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.poll.interval.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "security.protocol",
        "session.timeout.ms",
        "allow.auto.create.topics",
        "sasl.kerberos.service.name",
    }
)
_MEMBER_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "sasl.mechanism": "sasl.mechanisms",
    "ssl.key.password": "ssl.key.password",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.cipher.suites": "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
    "check.crcs": "check.crcs",
}
_MEMBER_IGNORED = frozenset(
    {
        "auto.offset.reset",  # decided by us, before each job
        "enable.auto.commit",
        "max.partition.fetch.bytes",  # bulk reads are Spark's
        "max.poll.records",
        "key.deserializer",
        "value.deserializer",
        "partition.assignment.strategy",  # the range assignor, which Java's default offers too
        "bootstrap.servers",
        "ssl.truststore.type",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.enabled.protocols",
    }
)
_MEMBER_DEFAULTS: dict[str, str | int | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "partition.assignment.strategy": "range",
    "auto.offset.reset": "error",
    "queued.min.messages": 1000,
    "queued.max.messages.kbytes": 4096,
    "fetch.message.max.bytes": 1048576,
    "fetch.wait.max.ms": 500,
    "reconnect.backoff.max.ms": 1000,
    "topic.metadata.refresh.interval.ms": 5000,
    "topic.metadata.propagation.max.ms": 5000,
}


def bootstrap(worker: Mapping[str, str], connector: Mapping[str, str], role: str) -> str:
    """Return Kafka's address for `role` (`producer`, `consumer`)."""
    return _layers(worker, connector, role).get("bootstrap.servers", worker.get("bootstrap.servers", ""))


def producer_options(
    worker: Mapping[str, str], connector: Mapping[str, str], client_id: str
) -> dict[str, str]:
    """Return options for Spark's Kafka writer."""
    wanted = {"client.id": client_id} | _PRODUCER_DEFAULTS | _layers(worker, connector, "producer")
    if wanted["enable.idempotence"].lower() == "true":
        wanted["max.in.flight.requests.per.connection"] = _layers(worker, connector, "producer").get(
            "max.in.flight.requests.per.connection", "5"
        )
    wanted["bootstrap.servers"] = bootstrap(worker, connector, "producer")
    refused = ("key.serializer", "value.serializer", "transactional.id")
    return {f"kafka.{key}": value for key, value in wanted.items() if key not in refused}


def producer_client_id(task: TaskId) -> str:
    """Return the client id of a source task's producer."""
    return f"connector-producer-{task}"


def consumer_options(worker: Mapping[str, str], connector: Mapping[str, str], name: str) -> dict[str, str]:
    """Return options for Spark's Kafka reader; offsets and topics are added per range."""
    wanted = _CONSUMER_DEFAULTS | _layers(worker, connector, "consumer")
    options = {f"kafka.{key}": value for key, value in wanted.items() if key not in _NOT_FOR_SPARK}
    options["kafka.bootstrap.servers"] = bootstrap(worker, connector, "consumer")
    options["groupIdPrefix"] = f"connect-{name}-read"
    options["includeHeaders"] = "true"
    return options


def reset_policy(worker: Mapping[str, str], connector: Mapping[str, str]) -> str:
    """Return `earliest`, `latest` or `none`. Connect's default is earliest."""
    return _layers(worker, connector, "consumer").get("auto.offset.reset", "earliest").lower()


def member_config(
    worker: Mapping[str, str], connector: Mapping[str, str], task: TaskId
) -> dict[str, str | int | bool]:
    """Return librdkafka's settings for a sink task's group member. Unknown names are dropped, and logged."""
    config: dict[str, str | int | bool] = {
        "group.id": f"connect-{task.connector}",
        "client.id": f"connector-consumer-{task}",
        **_MEMBER_DEFAULTS,
    }
    for key, value in _layers(worker, connector, "consumer").items():
        if key in _MEMBER_SAME:
            config[key] = value
        elif key in _MEMBER_RENAMED:
            config[_MEMBER_RENAMED[key]] = value or "none"
        elif key == "sasl.jaas.config":
            config |= _jaas(value)
        elif key not in _MEMBER_IGNORED:
            log.warning("%s: the consumer's setting %s is not known to its group member; dropped", task, key)
    config["bootstrap.servers"] = bootstrap(worker, connector, "consumer")
    return config


def _layers(worker: Mapping[str, str], connector: Mapping[str, str], role: str) -> dict[str, str]:
    shared = {key: value for key, value in worker.items() if key.startswith(_CLIENT_PREFIXES)}
    own = _under(worker, f"{role}.", lambda key: not key.startswith("override."))
    return shared | own | _under(connector, f"{role}.override.", lambda _: True)


def _under(config: Mapping[str, str], prefix: str, wanted: Callable[[str], bool]) -> dict[str, str]:
    return {
        key.removeprefix(prefix): value
        for key, value in config.items()
        if key.startswith(prefix) and wanted(key.removeprefix(prefix))
    }


def _jaas(text: str) -> dict[str, str | int | bool]:
    """Take user and password out of a login module's line; librdkafka has settings for them instead."""
    found: dict[str, str | int | bool] = {}
    for word in text.replace(";", " ").split():
        key, _, value = word.partition("=")
        if key in {"username", "password"}:
            found[f"sasl.{key}"] = value.strip("\"'")
    return found
