"""Administration of the internal topics: creates, checks and describes topics, and lists their offsets.

A StoreError may be transient: no broker responds, or there are fewer brokers than the replication factor. A
TopicUnusable is permanent: brokers reject the settings in the worker's config. Its subclass TopicMisconfigured is
raised until an administrator changes a topic that has another cleanup policy, or several partitions instead of one.
Source: TopicAdmin, KafkaTopicBasedBackingStore, KafkaConfigBackingStore.start (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NoReturn

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined] # they are documented there
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
)

from kraal.core.errors import StoreError, TopicMisconfigured, TopicUnusable
from kraal.core.kafka_errors import NOT_AUTHORIZED, TIMEOUTS, UNKNOWN_TOPIC, UNREACHABLE
from kraal.kafka.settings import LastClientError, cause_error_code, client_settings, error_code

log = logging.getLogger(__name__)

_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_MAX_TIMESTAMP: OffsetSpec = OffsetSpec.max_timestamp()  # type: ignore[no-untyped-call]
BROKER_DEFAULT = -1
"""Represents the broker's default number of partitions or replication factor."""
_POLICY, _COMPACT = "cleanup.policy", "compact"
_FIRST_RETRY_DELAY_S = 0.05
_NOT_ALLOWED_CODES = NOT_AUTHORIZED | {KafkaError.UNSUPPORTED_VERSION}
_TRANSIENT_CODES: Mapping[int | None, float] = {
    KafkaError.NOT_LEADER_FOR_PARTITION: 1,
    KafkaError.LEADER_NOT_AVAILABLE: 1,
    KafkaError.OFFSET_NOT_AVAILABLE: 1,
    KafkaError.FENCED_LEADER_EPOCH: 1,
    KafkaError.UNKNOWN_LEADER_EPOCH: 1,
    KafkaError.UNKNOWN_TOPIC_OR_PART: 0.2,
}
"""Transient errors while a topic is created or moved, with the fraction of the timeout to spend on retries."""
_STALE_LEADER_CODES = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors of a client with stale metadata; librdkafka's admin client caches a leader for minutes."""
_MISSING_TOPIC_ERROR = (  # Source: KafkaTopicBasedBackingStore.topicInitializer (Kafka 4.4.0)
    "Topic '{}' specified via the '{}' property is missing. The config 'internal.topics.automatic.creation.enable' is "
    "set to 'false', so automatic creation of internal topics is disabled. "
    "Either enable automatic creation or create the topics manually."
)
_REPLICATION_FACTOR_HINT = "Start more brokers, or set {}replication.factor to at most the number of brokers."
_PERMANENT_CODES = frozenset(
    {
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_REQUEST,
    }
)
"""Permanent errors of topic creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """The specification of an internal topic; `property` and `purpose` are part of Connect's error messages."""

    name: str
    property: str
    """The worker config key of the topic's name, such as `config.storage.topic`."""
    purpose: str
    """The content: `connector configurations`, `source connector offsets` or `connector and task statuses`."""
    partitions: int
    replication_factor: int
    single: bool = False
    """Whether the topic must have exactly one partition."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The user's topic settings; Kraal sets the cleanup policy."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """An existing topic. `id` changes if the topic is deleted and created again."""

    id: str
    partitions: int
    replicas: int = 0
    """Replication factor of the partition with the fewest replicas; 0 if unknown."""
    in_sync: int = 0
    """In-sync replicas of the partition with the fewest in-sync replicas; 0 if unknown."""
    operations: frozenset[str] = frozenset()
    """Authorized operations of this client, such as `DESCRIBE_CONFIGS`; empty if brokers do not return them."""


class TopicAdmin:
    """An admin client for topics. Thread-safe. Connects on first use."""

    def __init__(self, options: Mapping[str, str], *, client_id: str, timeout_s: float = 5.0) -> None:
        """`options` contains librdkafka's options with brokers and security; `timeout_s` is the timeout of a call."""
        self.timeout_s = timeout_s
        self.brokers = options.get("bootstrap.servers", "")
        self._last_error = LastClientError()
        self._settings = client_settings(options, client_id, self._last_error)
        self._lock = threading.Lock()
        self._admin_client: AdminClient | None = None

    def describe(self, topic: str, *, with_operations: bool = False) -> TopicDescription:
        """Describe `topic`, without creating it. Raises StoreError.

        `with_operations` includes the authorized operations, at some cost for the brokers.
        """
        options: dict[str, Any] = {"include_authorized_operations": True} if with_operations else {}
        try:
            description = self._result(
                self._client().describe_topics(
                    TopicCollection([topic]), request_timeout=self.timeout_s, **options
                )[topic]
            )
        except (KafkaException, TimeoutError) as exc:
            raise self._lookup_error(f"cannot look up the topic {topic!r}", topic, exc) from exc
        return TopicDescription(
            str(description.topic_id),
            len(description.partitions),
            replicas=min((len(partition.replicas) for partition in description.partitions), default=0),
            in_sync=min((len(partition.isr) for partition in description.partitions), default=0),
            operations=operation_names(description) if with_operations else frozenset(),
        )

    def request(self, subject: str, send: Callable[[AdminClient, float], Future[Any]]) -> Any:
        """Send a request for which this class has no method; return the response.

        `send` receives the client and its timeout in seconds. Raises StoreError with `subject` in its message, caused
        by the client's error.
        """
        try:
            return self._result(send(self._client(), self.timeout_s))
        except (KafkaException, TimeoutError) as exc:
            raise StoreError(f"Cannot look up {subject}: {self._last_error.append_to(exc)}") from exc

    def first_offsets(self, topic: str, partitions: int) -> list[int]:
        """Return the first available offset of each partition. Raises StoreError."""
        return self._offsets(topic, partitions, _EARLIEST, committed=False)

    def end_offsets(self, topic: str, partitions: int, *, committed: bool = False) -> list[int]:
        """Return the end of each partition, or its last stable offset if `committed`. Raises StoreError."""
        return self._offsets(topic, partitions, _LATEST, committed=committed)

    def latest_time_ms(self, topic: str, partitions: int) -> int | None:
        """Return the latest timestamp of a record, in milliseconds since the epoch; None if there are no records.

        Raises StoreError.
        """
        specs = {TopicPartition(topic, number): _MAX_TIMESTAMP for number in range(partitions)}
        try:
            futures = self._client().list_offsets(specs, request_timeout=self.timeout_s)
            times = [int(self._result(future).timestamp) for future in futures.values()]
        except (KafkaException, TimeoutError) as exc:
            raise self._lookup_error(
                f"cannot look up the records of the topic {topic!r}", topic, exc
            ) from exc
        return max((time_ms for time_ms in times if time_ms >= 0), default=None)

    def create(self, topic: InternalTopic) -> bool:
        """Create `topic` unless it exists; return whether it was created. Raises StoreError, TopicUnusable.

        Returns False if this worker is not authorized to create topics, because the topic may exist.
        """
        new_topic = NewTopic(
            topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config={**topic.settings, _POLICY: _COMPACT},
        )
        try:
            self._result(
                self._client().create_topics(
                    [new_topic], operation_timeout=self.timeout_s, request_timeout=self.timeout_s
                )[topic.name]
            )
        except (KafkaException, TimeoutError) as exc:
            if error_code(exc) == KafkaError.TOPIC_ALREADY_EXISTS:
                return False
            if error_code(exc) in _NOT_ALLOWED_CODES:
                log.info(
                    "Not authorized to create the topic %r (%s); create it if it does not exist.",
                    topic.name,
                    exc,
                )
                return False
            self._raise_creation_error(topic, exc)
        log.info("Created the topic %r on the brokers at %s", topic.name, self.brokers)
        return True

    def cleanup_policy(self, topic: str) -> frozenset[str]:
        """Return the topic's cleanup policies; empty if they are unknown, as in `settings`. Raises StoreError."""
        return parse_policies(self.settings(topic))

    def settings(self, topic: str) -> Mapping[str, str]:
        """Return the topic's settings; empty if the topic is missing or this worker may not read them.

        Raises StoreError.
        """
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            entries = self._result(
                self._client().describe_configs([resource], request_timeout=self.timeout_s)[resource]
            )
        except (KafkaException, TimeoutError) as exc:
            if error_code(exc) in _NOT_ALLOWED_CODES or error_code(exc) in UNKNOWN_TOPIC:
                return {}
            prefix = "Timed out while waiting" if _is_timeout(exc) else "Error while attempting"
            raise StoreError(
                f"{prefix} to describe topic config for topic '{topic}' on brokers at {self.brokers}"
            ) from exc
        return {name: str(entry.value) for name, entry in entries.items() if entry.value is not None}

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            self._admin_client = None

    def _client(self) -> AdminClient:
        with self._lock:
            if self._admin_client is None:
                self._admin_client = AdminClient(self._settings)
            return self._admin_client

    def _result(self, future: Future[Any]) -> Any:
        """Wait for a response; on a timeout, discard the client, which may never reconnect.

        librdkafka removes brokers that a metadata response does not contain. A single broker that was suspended is
        fenced briefly, and its responses contain no brokers; an admin client then waits forever for a controller.
        """
        try:
            return future.result(self.timeout_s + 1)
        except (KafkaException, TimeoutError) as exc:
            self._poll_errors()
            if isinstance(exc, TimeoutError) or error_code(exc) in UNREACHABLE:
                self.close()
            raise

    def _poll_errors(self) -> None:
        """Poll the client so that it reports connection errors.

        Not part of `_result`, because the error in a future would keep that frame and thus the client's threads alive.
        """
        if (client := self._admin_client) is not None:  # another thread may have discarded it
            client.poll(0)

    def _offsets(self, topic: str, partitions: int, spec: OffsetSpec, *, committed: bool) -> list[int]:
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        specs = {TopicPartition(topic, number): spec for number in range(partitions)}
        start_s = time.monotonic()
        while True:
            try:
                futures = self._client().list_offsets(
                    specs, isolation_level=level, request_timeout=self.timeout_s
                )
                offsets = {
                    topic_partition.partition: self._result(future).offset
                    for topic_partition, future in futures.items()
                }
                if min(offsets.values(), default=0) < 0:  # librdkafka's result if no broker responded
                    raise TimeoutError("no broker responded in time")
                return [offsets[number] for number in range(partitions)]
            except (KafkaException, TimeoutError) as exc:
                retry_timeout_s = self.timeout_s * _TRANSIENT_CODES.get(error_code(exc), 0)
                if time.monotonic() - start_s >= retry_timeout_s:
                    # The client is closed only now, because closing fails the requests of other threads.
                    if error_code(exc) in _STALE_LEADER_CODES:
                        self.close()
                    raise self._lookup_error(
                        f"cannot look up the offsets of the topic {topic!r}", topic, exc
                    ) from exc
            time.sleep(_FIRST_RETRY_DELAY_S)

    def _lookup_error(self, prefix: str, topic: str, exc: BaseException) -> StoreError:
        if error_code(exc) in UNKNOWN_TOPIC:
            return StoreError(f"the topic {topic!r} does not exist on the brokers at {self.brokers}")
        return StoreError(f"{prefix}: {self._last_error.append_to(exc)}")

    def _raise_creation_error(self, topic: InternalTopic, exc: BaseException) -> NoReturn:
        reason = self._last_error.append_to(exc)
        if error_code(exc) == KafkaError.INVALID_CONFIG:
            raise TopicUnusable(f"Unable to create topic(s) '{topic.name}': {reason}") from exc
        if _is_timeout(exc):
            log.warning("Failed to create the topic %r: %s", topic.name, reason)
            raise StoreError(
                f"Timed out while checking for or creating topic(s) '{topic.name}'. This could indicate a connectivity "
                "issue, unavailable topic partitions, or if this is your first use of the topic it may have taken "
                "too long to create."
            ) from exc
        error_class = TopicUnusable if error_code(exc) in _PERMANENT_CODES else StoreError
        hint = (
            _REPLICATION_FACTOR_HINT.format(topic.property.removesuffix("topic"))
            if error_code(exc) == KafkaError.INVALID_REPLICATION_FACTOR
            else ""
        )
        raise error_class(
            f"Error while attempting to create/find topic(s) '{topic.name}': {reason}", hint=hint
        ) from exc


def ensure_topics(admin: TopicAdmin, topics: Sequence[InternalTopic], *, create: bool = True) -> list[str]:
    """Create missing topics with compaction, and check existing ones; return the names of the new topics.

    Blocks for up to a few times the admin client's timeout. Raises StoreError for transient failures,
    TopicMisconfigured until an administrator changes the topic, and TopicUnusable for permanent failures that prevent
    the worker from starting, such as a missing topic if `create` is False.
    """
    created_names: list[str] = []
    for topic in topics:
        if not create and is_missing(admin, topic.name):
            raise TopicUnusable(_MISSING_TOPIC_ERROR.format(topic.name, topic.property))
        if create and admin.create(topic):
            created_names.append(topic.name)
        else:
            _check_policy(admin, topic)
    for topic in topics:
        description = _wait_for_metadata(admin, topic.name)
        if topic.single and description.partitions > 1:
            raise TopicMisconfigured(
                f"Topic '{topic.name}' supplied via the '{topic.property}' property is required to have a single "
                f"partition in order to guarantee consistency of {topic.purpose}, but found {description.partitions} "
                "partitions.",
                hint=f"If its records are not needed, delete the topic; the worker recreates it: kafka-topics.sh "
                f"--bootstrap-server {admin.brokers} --delete --topic {topic.name}",
            )
    return created_names


def is_missing(admin: TopicAdmin, topic: str) -> bool:
    """Return whether `topic` does not exist. Raises StoreError."""
    try:
        admin.describe(topic)
    except StoreError as exc:
        if cause_error_code(exc) not in UNKNOWN_TOPIC:
            raise
        return True
    return False


def _check_policy(admin: TopicAdmin, topic: InternalTopic) -> None:
    policies = admin.cleanup_policy(topic.name)
    if not policies:
        log.info(
            "Unable to use admin client to verify the cleanup policy of '%s' topic is '%s', either because the "
            "broker is an older version or because the Kafka principal used for Connect internal topics does not "
            "have the required permission to describe topic configurations.",
            topic.name,
            _COMPACT,
        )
    elif policies != {_COMPACT}:
        raise TopicMisconfigured(
            f"Topic '{topic.name}' supplied via the '{topic.property}' property is required to have "
            f"'{_POLICY}={_COMPACT}' to guarantee consistency and durability of {topic.purpose}, but found the topic "
            f"currently has '{_POLICY}={','.join(sorted(policies))}'. Continuing would likely result in eventually "
            f"losing {topic.purpose} and problems restarting this Connect cluster in the future. Change the "
            f"'{topic.property}' property in the Connect worker configurations to use a topic with "
            f"'{_POLICY}={_COMPACT}'.",
            hint=f"Alternatively, enable compaction: kafka-configs.sh --bootstrap-server {admin.brokers} --alter "
            f"--entity-type topics --entity-name {topic.name} --add-config {_POLICY}={_COMPACT}",
        )


def _wait_for_metadata(admin: TopicAdmin, topic: str) -> TopicDescription:
    """Return a topic's description; wait for the metadata of a new topic, up to the admin client's timeout."""
    deadline_s, delay_s = time.monotonic() + admin.timeout_s, _FIRST_RETRY_DELAY_S
    while True:
        try:
            description = admin.describe(topic)
            admin.end_offsets(topic, description.partitions)
        except StoreError as exc:
            if time.monotonic() + delay_s > deadline_s:
                raise StoreError(
                    f"Could not look up partition metadata for topic '{topic}' in the allotted period. This could "
                    "indicate a connectivity issue, unavailable topic partitions, or if this is your first use of "
                    "the topic it may have taken too long to create."
                ) from exc
        else:
            return description
        time.sleep(delay_s)
        delay_s *= 2


def parse_policies(settings: Mapping[str, str]) -> frozenset[str]:
    """Return the cleanup policies in a topic's settings; empty if they are unknown."""
    return frozenset(p for part in settings.get(_POLICY, "").split(",") if (p := part.strip().lower()))


def operation_names(description: Any) -> frozenset[str]:
    """Return the names of the authorized operations in a description; empty if it has none."""
    return frozenset(operation.name for operation in description.authorized_operations or ())


def _is_timeout(exc: BaseException) -> bool:
    return isinstance(exc, TimeoutError) or error_code(exc) in TIMEOUTS
