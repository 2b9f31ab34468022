"""Determines why brokers reject records for a topic, because librdkafka only reports that a record timed out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined] # documented there

_TIMEOUT_S: Final = 10.0
_MIN_IN_SYNC: Final = "min.insync.replicas"


def describe_write_failure(settings: Mapping[str, Any], topic: str) -> str:
    """Return why brokers reject records for a topic, or why the topic cannot be looked up.

    Return an empty string if there is no apparent reason. `settings` are librdkafka's settings. Blocks; does not raise.
    """
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        admin: Any = AdminClient(dict(settings))
        topics = admin.describe_topics(ck.TopicCollection([topic]), request_timeout=_TIMEOUT_S)
        configs = admin.describe_configs([resource], request_timeout=_TIMEOUT_S)
        partitions = topics[topic].result(_TIMEOUT_S + 1).partitions
        min_in_sync = int(configs[resource].result(_TIMEOUT_S + 1)[_MIN_IN_SYNC].value)
    except ck.KafkaException as exc:
        return f"the topic {topic!r} cannot be looked up: {exc.args[0].str()}"
    except (TimeoutError, KeyError, ValueError) as exc:
        return f"the topic {topic!r} cannot be looked up: {exc!r}"
    for partition in partitions:
        if partition.leader is None:
            return f"partition {partition.id} of the topic {topic!r} has no leader"
        if len(partition.isr) < min(min_in_sync, len(partition.replicas)):  # Partition.effectiveMinIsr
            return (
                f"partition {partition.id} of the topic {topic!r} has {len(partition.isr)} replicas in sync, fewer "
                f"than {_MIN_IN_SYNC}={min_in_sync} of the topic"
            )
    return ""
