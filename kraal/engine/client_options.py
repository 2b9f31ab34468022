"""Kafka client settings for tasks: the framework's defaults, then the worker's settings, then the connector's.

Users always write Java's names (`producer.linger.ms`, `consumer.override.max.poll.records`). Spark expects them with
the prefix `kafka.`; the group member uses librdkafka. `kraal.config.clients` decides which settings each client
receives. Source: Worker.baseProducerConfigs, Worker.baseConsumerConfigs (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from kraal.config.clients.java import java_options
from kraal.config.clients.keys import Client
from kraal.config.clients.layers import SECURITY_PREFIXES, SOURCE_PRODUCER, bootstrap, merge_layers
from kraal.config.clients.librdkafka import find_unsupported, librdkafka_options
from kraal.config.clients.offset_reset import OffsetReset, read_offset_reset
from kraal.config.clients.record_size import DEFAULT_BYTES, MAX_REQUEST_SIZE
from kraal.core.errors import ConfigInvalid
from kraal.core.ids import TaskId

log = logging.getLogger(__name__)

_PRODUCER_DEFAULTS = {
    **SOURCE_PRODUCER,
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1",
    "max.block.ms": "9223372036854775807",
    "delivery.timeout.ms": "2147483647",
    "request.timeout.ms": "300000",
}
"""Connect's producer defaults, and Kraal's defaults for batching."""

_CONSUMER_DEFAULTS = {
    "max.partition.fetch.bytes": "16777216",
    "fetch.max.bytes": "67108864",
    "max.poll.records": "20000",
    "receive.buffer.bytes": "1048576",
}
_RANGE_DEFAULTS = {"fetch.max.wait.ms": "5"}
"""At the end of a log, the offset request of Spark's reader waits for a fetch of records beyond the range. With Kafka's
default, this fetch takes half a second.
"""

SHARED_CLIENT = "connector-producer-shared"
"""Client id of the producer that tasks share for small batches; one producer per task would use too many threads."""

LANE_CLIENT = "connector-producer-lane"
"""Client id of a lane's producer."""
_LANE_DEFAULTS = {"linger.ms": "0"}
_LANE_BLOCK_MS = "500"
"""How long missing metadata or a full buffer may block a lane; then a job writes the batch, and blocks instead."""

WORKER_CLIENT: Final = "connector-producer-worker"
"""Client id of a producer in the worker process."""
WORKER_DELIVERY_MS: Final = 10_000
"""Maximum `delivery.timeout.ms` of a producer in the worker process. After this timeout, a job writes the batch."""
_WORKER_DEFAULTS = {
    "enable.idempotence": "true",
    "max.in.flight.requests.per.connection": "5",
    "linger.ms": "1",
    MAX_REQUEST_SIZE: DEFAULT_BYTES,
}
"""The producer is idempotent because librdkafka prepares the next request while one is in flight, and sends it even if
the first one fails: a limit of one request in flight would not keep records in order.
"""

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
"""Settings that Spark rejects or sets itself."""

_FIXED_FOR_MEMBER = frozenset(
    {
        "auto.offset.reset",  # applied by Kraal (`kraal.engine.sink.ranges.choose_start`)
        "bootstrap.servers",
        "enable.auto.commit",
        "max.partition.fetch.bytes",  # Spark does bulk reads
        "partition.assignment.strategy",  # always the range assignor, which is also in Java's default
    }
)
"""Consumer settings that users cannot override for a group member."""

_SESSION_MS: Final = 45_000
_HEARTBEAT_MS: Final = 3_000
"""Kafka's default values of session.timeout.ms and heartbeat.interval.ms."""
_MIN_HEARTBEATS: Final = 6
"""Minimum number of heartbeats per session timeout."""
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
    "topic.metadata.propagation.max.ms": 5000,
    "log_level": 2,  # important events reach the error callback
}


def producer_options(
    worker: Mapping[str, str],
    connector: Mapping[str, str],
    client_id: str,
    defaults: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return options for Spark's Kafka writer; `defaults` override the framework's defaults. Raises ConfigInvalid."""
    overrides = merge_layers(worker, connector, "producer")
    configs = {"client.id": client_id} | _PRODUCER_DEFAULTS | dict(defaults or {}) | overrides
    if configs["enable.idempotence"].lower() == "true":
        configs["max.in.flight.requests.per.connection"] = overrides.get(
            "max.in.flight.requests.per.connection", "5"
        )
    configs["bootstrap.servers"] = bootstrap(worker, connector, "producer")
    excluded = ("key.serializer", "value.serializer", "transactional.id")
    return {f"kafka.{key}": value for key, value in java_options(configs).items() if key not in excluded}


def lane_configs(worker: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str]:
    """Return the configs of a lane's producer, named as in Kafka. Raises ConfigInvalid."""
    options = producer_options(worker, connector, LANE_CLIENT, _LANE_DEFAULTS)
    return {key.removeprefix("kafka."): value for key, value in options.items()} | {
        "max.block.ms": _LANE_BLOCK_MS
    }


def worker_producer_configs(worker: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str] | None:
    """Return librdkafka's settings for a producer in the worker; None if only the Java producer supports the overrides.

    The producer is idempotent, so the result is also None for overrides that exclude idempotence.
    """
    overrides = merge_layers(worker, connector, "producer")
    if find_unsupported(overrides) or "transactional.id" in overrides or not _allow_idempotence(overrides):
        return None
    configs = {"client.id": WORKER_CLIENT} | _PRODUCER_DEFAULTS | _WORKER_DEFAULTS | overrides
    configs["bootstrap.servers"] = bootstrap(worker, connector, "producer")
    try:
        options = librdkafka_options(configs)
    except ConfigInvalid:
        return None
    delivery_ms = min(int(options["delivery.timeout.ms"]) or WORKER_DELIVERY_MS, WORKER_DELIVERY_MS)
    options["delivery.timeout.ms"] = str(delivery_ms)
    options["linger.ms"] = str(min(int(options["linger.ms"]), delivery_ms))
    return options | {"log_level": "2", "partitioner": "murmur2_random"}


def _allow_idempotence(overrides: Mapping[str, str]) -> bool:
    """Return whether a producer with these overrides may be idempotent. Source: ProducerConfig (Kafka 4.4.0)."""
    return (
        overrides.get("enable.idempotence", "true").lower() == "true"
        and overrides.get("acks", "all") in {"all", "-1"}
        and overrides.get("retries") != "0"
        and overrides.get("max.in.flight.requests.per.connection", "1") in set("12345")
    )


def producer_client_id(task: TaskId) -> str:
    """Return the client id of a source task's producer."""
    return f"connector-producer-{task}"


def choose_client_id(worker: Mapping[str, str], connector: Mapping[str, str], default: str) -> str:
    """Return the client id of a connector's producers: the configured one, or `default`."""
    return merge_layers(worker, connector, "producer").get("client.id", default)


def consumer_options(worker: Mapping[str, str], connector: Mapping[str, str], name: str) -> dict[str, str]:
    """Return options for Spark's Kafka reader; the caller adds topics and offsets per range. Raises ConfigInvalid."""
    settings = merge_layers(worker, connector, "consumer")
    settings["bootstrap.servers"] = bootstrap(worker, connector, "consumer")
    return range_options(settings, f"connect-{name}-read")


def range_options(settings: Mapping[str, str], group: str) -> dict[str, str]:
    """Return `reader_options` for reading existing records without waiting for new ones. Raises ConfigInvalid."""
    return reader_options(_RANGE_DEFAULTS | dict(settings), group)


def reader_options(settings: Mapping[str, str], group: str) -> dict[str, str]:
    """Return options for Spark's Kafka reader from consumer settings, named as in Kafka. Raises ConfigInvalid.

    `group` is the prefix of the group ids that Spark generates.
    """
    configs = java_options(_CONSUMER_DEFAULTS | dict(settings))
    options = {f"kafka.{key}": value for key, value in configs.items() if key not in _NOT_FOR_SPARK}
    options["kafka.bootstrap.servers"] = settings.get("bootstrap.servers", "")
    options["groupIdPrefix"] = group
    options["includeHeaders"] = "true"
    return options


def offset_reset(worker: Mapping[str, str], connector: Mapping[str, str]) -> OffsetReset:
    """Return the connector's `auto.offset.reset`; Connect's default is `earliest`. Raises ConfigInvalid."""
    text = merge_layers(worker, connector, "consumer").get("auto.offset.reset", "earliest")
    return read_offset_reset(_key_finder(worker, connector, "consumer")("auto.offset.reset"), text)


def consumer_settings(worker: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str]:
    """Return a connector's consumer settings, named as in Kafka."""
    settings = merge_layers(worker, connector, "consumer")
    return {**settings, "bootstrap.servers": bootstrap(worker, connector, "consumer")}


def admin_options(
    worker: Mapping[str, str], connector: Mapping[str, str], client_id: str
) -> dict[str, str | int]:
    """Return librdkafka's settings for a connector's admin client: `admin.*`, then `admin.override.*`.

    Raises ConfigInvalid. Source: Worker.adminConfigs.
    """
    configs = {"client.id": client_id} | merge_layers(worker, connector, "admin")
    return {
        **librdkafka_options(configs, _key_finder(worker, connector, "admin")),
        "bootstrap.servers": bootstrap(worker, connector, "admin"),
        "log_level": 2,  # calls raise an error if a broker is unavailable
    }


def member_config(
    worker: Mapping[str, str], connector: Mapping[str, str], task: TaskId
) -> dict[str, str | int | bool]:
    """Return librdkafka's settings for a sink task's group member. Unsupported settings are logged and dropped.

    Unless `heartbeat.interval.ms` is set, a member with a short session timeout sends heartbeats more often than
    Kafka's default of 3 s: with a timeout of 6 s, one late heartbeat would remove the member from the group. Raises one
    ConfigInvalid with all errors.
    """
    settings = merge_layers(worker, connector, "consumer")
    allowed_settings = {key: value for key, value in settings.items() if key not in _FIXED_FOR_MEMBER}
    for key in find_unsupported(allowed_settings):
        log.warning(
            "%s: Ignoring the consumer setting %s, which the group member does not support", task, key
        )
    options = librdkafka_options(allowed_settings, _key_finder(worker, connector, "consumer"))
    session_ms = int(options.get("session.timeout.ms", _SESSION_MS))
    return {
        "group.id": f"connect-{task.connector}",
        "client.id": f"connector-consumer-{task}",
        **_MEMBER_DEFAULTS,
        "heartbeat.interval.ms": min(_HEARTBEAT_MS, session_ms // _MIN_HEARTBEATS),
        **options,
        "topic.metadata.refresh.interval.ms": 5000,
        "bootstrap.servers": bootstrap(worker, connector, "consumer"),
    }


def proof_client_id(name: str) -> str:
    """Return the client id of all consumers of a connector's proof, for which brokers may have a quota."""
    return f"kraal-proof-{name}"


def proof_client_config(
    worker: Mapping[str, str], connector: Mapping[str, str], task: TaskId
) -> dict[str, str | int | bool]:
    """Return librdkafka's settings for the client that requests topics and offsets for a proof; it joins no group."""
    settings = member_config(worker, connector, task)
    settings["client.id"] = proof_client_id(task.connector)
    settings.pop("group.instance.id", None)
    return settings


def written_topics_settings(worker: Mapping[str, str], connector: Mapping[str, str]) -> dict[str, str]:
    """Return consumer settings with the bootstrap servers and security settings of a source's producer."""
    producer = merge_layers(worker, connector, "producer")
    consumer = merge_layers(worker, connector, "consumer")
    return {
        **{key: value for key, value in consumer.items() if not key.startswith(SECURITY_PREFIXES)},
        **{key: value for key, value in producer.items() if key.startswith(SECURITY_PREFIXES)},
        "bootstrap.servers": bootstrap(worker, connector, "producer"),
    }


def written_topics_client_config(
    worker: Mapping[str, str], connector: Mapping[str, str], name: str
) -> dict[str, str | int | bool]:
    """Return librdkafka's settings for requests about the topics that a source writes to. Raises ConfigInvalid."""
    settings = written_topics_settings(worker, connector)
    allowed_settings = {key: value for key, value in settings.items() if key not in _FIXED_FOR_MEMBER}
    return {
        **_MEMBER_DEFAULTS,
        **librdkafka_options(allowed_settings),
        "bootstrap.servers": settings["bootstrap.servers"],
        "group.id": f"kraal-proof-{name}",
        "client.id": proof_client_id(name),
    }


def _key_finder(
    worker: Mapping[str, str], connector: Mapping[str, str], client: Client
) -> Callable[[str], str]:
    """Return a function that maps a client setting to the config key that sets it, for error messages."""

    def find_key(key: str) -> str:
        candidates = (f"{client}.override.{key}", f"{client}.{key}")
        return next((name for name in candidates if name in connector or name in worker), key)

    return find_key
