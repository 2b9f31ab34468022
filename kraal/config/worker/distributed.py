"""The config of a distributed worker: reading and validation. Source: DistributedConfig (Kafka 4.4.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, final

from typing_extensions import override

from kraal.config.properties_file import read_properties
from kraal.config.values import Resolve, as_strings, invalid
from kraal.config.worker.config import (
    ResolveVariables,
    ValidatedProperties,
    WorkerConfig,
    check_worker,
    own_client_keys,
    suggest_key,
    trimmed_values,
    worker_fields,
    worker_warnings,
)
from kraal.config.worker.distributed_keys import (
    CREATE_TOPICS,
    DISTRIBUTED,
    EXACTLY_ONCE,
    KEY_ALGORITHM,
    KEY_SIZE,
    LEDGER_TOPIC,
    MAX_IDLE,
    MISSING_PLUGINS,
    PROTOCOL,
    RESOLVE_TIMEOUT,
    SIGNATURE,
    STATIC_CONNECTORS,
    STATIC_TASKS,
    TOPIC_PREFIXES,
    TOPIC_SETTINGS,
    UNSIGNED,
    VERIFICATION,
    parse_static_task,
)
from kraal.config.worker.keys import STANDALONE
from kraal.core.ids import ConnectorName
from kraal.protocol.group import ConnectorOrTask, ConnectProtocol
from kraal.protocol.signature import KEY_BYTES, key_size

_CLEANUP: Final = "cleanup.policy"
_STANDALONE_ONLY: Final = {
    **dict.fromkeys(
        (key.name for key in STANDALONE if key.name not in DISTRIBUTED), "only standalone workers use it"
    ),
}
_MIN_KEY_BITS: Final = 40


class ExactlyOnce(StrEnum):
    """The values of `exactly.once.source.support`."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"

    @property
    def transactional_leader(self) -> bool:
        """Whether the leader writes to the config topic in transactions."""
        return self is not ExactlyOnce.DISABLED


class MissingPlugins(StrEnum):
    """The behavior of a worker that lacks connector classes of its group (`mixed.group.missing.plugins`)."""

    REFUSE = "refuse"
    """Do not join the group."""
    FAIL_TASK = "fail-task"


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """One of the topics that store a cluster's state."""

    key: str
    """The config key of the topic's name, such as `config.storage.topic`."""
    name: str
    partitions: int
    """The number of partitions of a new topic; -1 for the broker's default."""
    replication_factor: int
    """The replication factor of a new topic; -1 for the broker's default."""
    settings: Mapping[str, str]
    """Settings of a new topic, without `cleanup.policy`, which is always `compact`."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedConfig(WorkerConfig):
    """The config of a distributed worker."""

    group_id: str
    client_id: str
    """The configured client id; may be empty."""
    config_topic: InternalTopic
    offset_topic: InternalTopic
    status_topic: InternalTopic
    ledger_topic: InternalTopic | None
    """None without a ledger."""
    creates_topics: bool
    """Whether the worker creates missing internal topics (KIP-1209)."""
    session_timeout_s: float
    heartbeat_interval_s: float
    rebalance_timeout_s: float
    worker_sync_timeout_s: float
    worker_unsync_backoff_s: float
    protocol: ConnectProtocol
    static_assignments: tuple[ConnectorOrTask, ...] | None
    """The sorted static assignments (KIP-987); None if the leader assigns the work."""
    scheduled_rebalance_max_delay_ms: int
    session_key_algorithm: str
    session_key_size: int
    """The size of session keys in bytes."""
    session_key_ttl_ms: int
    """The time after which session keys expire; 0 for never."""
    signature_algorithm: str
    verification_algorithms: tuple[str, ...]
    accepts_unsigned: bool
    """Whether unsigned requests of other workers are accepted while the group's protocol does not sign requests."""
    exactly_once: ExactlyOnce
    missing_plugins: MissingPlugins
    data_dir: Path | None
    """The directory for temporary files; None to use the system's temporary directory."""
    group_client: Mapping[str, str] = field(repr=False)
    """Settings of the group's client, keyed by Java client names: `own_client`, and Connect's defaults."""

    @property
    @override
    def group(self) -> str:
        return self.group_id

    @property
    def client_id_base(self) -> str:
        """The prefix of the client ids for internal topics. Source: ConnectUtils.clientIdBase."""
        return f"{self.group_id}-{self.client_id}-" if self.client_id.strip() else f"{self.group_id}-"

    @property
    def member_client_id(self) -> str:
        """The client id of the group member. Source: DistributedHerder."""
        return self.client_id or f"connect-{self.worker_id}"

    @property
    def transactional_id(self) -> str | None:
        """The transactional id of the leader; None if the leader writes without transactions."""
        return f"connect-cluster-{self.group_id}" if self.exactly_once.transactional_leader else None

    @property
    @override
    def exactly_once_sources(self) -> bool:
        return self.exactly_once is ExactlyOnce.ENABLED


def load_distributed(
    path: str | Path, *, resolve: Resolve | None = None, resolve_variables: ResolveVariables = dict
) -> DistributedConfig:
    """Read a distributed worker's properties file. `resolve_variables` replaces variables with their values.

    Raises BadRequest if the file cannot be read, and ConfigInvalid with all errors if it is invalid.
    """
    return parse_distributed(
        resolve_variables(read_properties(path, "worker configuration")), resolve=resolve
    )


def parse_distributed(raw: Mapping[str, str], *, resolve: Resolve | None = None) -> DistributedConfig:
    """Validate a distributed worker's config; `resolve` finds the converters' classes.

    Raises ConfigInvalid with all errors.
    """
    raw = trimmed_values(raw)
    properties = check_worker(DISTRIBUTED, raw, resolve=resolve)
    properties.errors.extend(_cross_errors(properties.values))
    properties.raise_errors()
    warnings = [*_key_warnings(raw), *_client_warnings(properties), *_unsigned_warnings(properties)]
    warnings += _static_warnings(properties)
    if RESOLVE_TIMEOUT in raw:
        raw = {**raw, RESOLVE_TIMEOUT: "0"}
        properties = replace(properties, raw=raw)
    fields = worker_fields(properties, warnings)
    fields["client"] = MappingProxyType(
        {name: value for name, value in fields["client"].items() if name != "client.id"}
    )
    text, number, seconds = properties.text, properties.number, properties.seconds
    data_dir = text("kraal.data.dir")
    algorithm = text(KEY_ALGORITHM)
    bits = number(KEY_SIZE) if properties.values[KEY_SIZE] is not None else None
    return DistributedConfig(
        **fields,
        group_id=text("group.id"),
        client_id=text("client.id"),
        config_topic=_internal_topic(properties, "config.storage."),
        offset_topic=_internal_topic(properties, "offset.storage."),
        status_topic=_internal_topic(properties, "status.storage."),
        ledger_topic=_internal_topic(properties, "ledger.storage.") if text(LEDGER_TOPIC) else None,
        creates_topics=properties.values[CREATE_TOPICS] is True,
        session_timeout_s=seconds("session.timeout.ms"),
        heartbeat_interval_s=seconds("heartbeat.interval.ms"),
        rebalance_timeout_s=seconds("rebalance.timeout.ms"),
        worker_sync_timeout_s=seconds("worker.sync.timeout.ms"),
        worker_unsync_backoff_s=seconds("worker.unsync.backoff.ms"),
        protocol=ConnectProtocol(text(PROTOCOL).lower()),
        static_assignments=_static_assignments(properties),
        scheduled_rebalance_max_delay_ms=number("scheduled.rebalance.max.delay.ms"),
        session_key_algorithm=algorithm,
        session_key_size=key_size(bits, algorithm),
        session_key_ttl_ms=number("inter.worker.key.ttl.ms"),
        signature_algorithm=text(SIGNATURE),
        verification_algorithms=tuple(as_strings(properties.values[VERIFICATION])),
        accepts_unsigned=properties.basic_auth is None or text(UNSIGNED) == "allow",
        exactly_once=ExactlyOnce(text(EXACTLY_ONCE).lower()),
        missing_plugins=MissingPlugins(text(MISSING_PLUGINS)),
        data_dir=Path(data_dir) if data_dir else None,
        group_client=_group_client(fields["bootstrap_servers"], raw),
    )


def _cross_errors(values: Mapping[str, object]) -> list[str]:
    """Return errors in combinations of keys. Source: validateInterWorkerKeyConfigs, Heartbeat."""
    errors: list[str] = []
    signature, verification = values[SIGNATURE], as_strings(values[VERIFICATION])
    if verification and signature not in verification:
        reason = f"Signature algorithm must be present in {VERIFICATION} list"
        errors.append(invalid(SIGNATURE, signature, reason))
    algorithm, bits = values[KEY_ALGORITHM], values[KEY_SIZE]
    if algorithm in KEY_BYTES and isinstance(bits, int) and bits < _MIN_KEY_BITS:
        reason = (
            f"Unable to create key generator with algorithm {algorithm} and key size {bits}: "
            f"Key length must be at least {_MIN_KEY_BITS} bits"
        )
        errors.append(invalid(KEY_SIZE, bits, reason))
    heartbeat, session = values["heartbeat.interval.ms"], values["session.timeout.ms"]
    if isinstance(heartbeat, int) and isinstance(session, int) and 0 < session <= heartbeat:
        reason = f"Heartbeat must be set lower than the session timeout, which is {session}"
        errors.append(invalid("heartbeat.interval.ms", heartbeat, reason))
    return errors


def _internal_topic(properties: ValidatedProperties, prefix: str) -> InternalTopic:
    worker_keys = {"topic", "partitions", "replication.factor", _CLEANUP}
    settings = {
        name.removeprefix(prefix): value
        for name, value in properties.raw.items()
        if name.startswith(prefix)
        and name not in _STANDALONE_ONLY
        and name.removeprefix(prefix) not in worker_keys
    }
    partitions = f"{prefix}partitions"
    return InternalTopic(
        key=f"{prefix}topic",
        name=properties.text(f"{prefix}topic"),
        partitions=properties.number(partitions) if partitions in DISTRIBUTED else 1,
        replication_factor=properties.number(f"{prefix}replication.factor"),
        settings=MappingProxyType(settings),
    )


def _group_client(bootstrap_servers: str, raw: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings of the worker's own clients, with Connect's defaults for the group's client."""
    client_keys = own_client_keys() - {"client.id"}
    settings = {
        key.name: key.default_text
        for key in DISTRIBUTED
        if key.name in client_keys and key.default_text and not key.name.startswith(("ssl.", "sasl."))
    }
    settings |= {name: value for name, value in raw.items() if name in client_keys}
    return MappingProxyType({**settings, "bootstrap.servers": bootstrap_servers})


def _client_warnings(properties: ValidatedProperties) -> list[str]:
    """Return Connect's warnings about the worker's own clients. Source: DistributedConfig.postProcessParsedConfig."""
    warnings = []
    idle_ms, rebalance_ms = properties.number(MAX_IDLE), properties.number("rebalance.timeout.ms")
    if 0 <= idle_ms < rebalance_ms:
        warnings.append(
            f"Configuration '{MAX_IDLE}' with value '{idle_ms}' is lower than configuration 'rebalance.timeout.ms' "
            f"with value '{rebalance_ms}'. This may cause the connection to the group coordinator to be closed "
            "during an ongoing rebalance, which can prolong or disrupt group rejoin."
        )
    if timeout_ms := properties.number(RESOLVE_TIMEOUT):
        warnings.append(
            f"The value {timeout_ms} for the {RESOLVE_TIMEOUT} property will be ignored as Kafka Connect does not "
            "support asynchronous bootstrap resolution. The value 0 will be used instead."
        )
    return warnings


def _unsigned_warnings(properties: ValidatedProperties) -> list[str]:
    """Return warnings about the effects of basic authentication on requests between workers."""
    if properties.basic_auth is None:
        return []
    if properties.text(UNSIGNED) == "allow":
        return [
            (
                f"{UNSIGNED}=allow: while the group's protocol is older than sessioned, any client that can reach this "
                "worker can write task configs without a password."
            )
        ]
    if not ConnectProtocol(properties.text(PROTOCOL).lower()).offered_protocols[0].is_signed:
        return [
            (
                f"{PROTOCOL}={properties.text(PROTOCOL)} does not sign requests, so this worker will reject requests "
                f"of other workers: set {PROTOCOL}=sessioned on all of them, or {UNSIGNED}=allow."
            )
        ]
    return []


def _static_assignments(properties: ValidatedProperties) -> tuple[ConnectorOrTask, ...] | None:
    """Return the static assignments; None if both lists are empty."""
    connectors, tasks = (as_strings(properties.values[name]) for name in (STATIC_CONNECTORS, STATIC_TASKS))
    assignments = {ConnectorOrTask(ConnectorName(name)) for name in connectors}
    assignments |= {
        ConnectorOrTask(ConnectorName(task_id[0]), task_id[1])
        for task in tasks
        if (task_id := parse_static_task(task))
    }
    return tuple(sorted(assignments)) or None


def _static_warnings(properties: ValidatedProperties) -> list[str]:
    """Return warnings about static assignments without effect."""
    lists = [name for name in (STATIC_CONNECTORS, STATIC_TASKS) if properties.values[name] is not None]
    protocol = properties.text(PROTOCOL).lower()
    if lists and protocol != ConnectProtocol.STATIC:
        reason = f"{PROTOCOL}={protocol}, and only static supports static assignments"
        return [f"{name} is ignored: {reason}." for name in lists]
    if lists and _static_assignments(properties) is None:
        return [
            f"No entries in {' and '.join(lists)}: the leader assigns this worker's connectors and tasks."
        ]
    return []


def _key_warnings(raw: Mapping[str, str]) -> list[str]:
    """Return warnings about ignored and unknown keys."""
    warnings: list[str] = []
    if (count := raw.get("config.storage.partitions")) is not None:
        warnings.append(
            f"Ignoring 'config.storage.partitions={count}' setting, since config topic partitions is always 1"
        )
    for prefix in TOPIC_PREFIXES:
        if (policy := raw.get(prefix + _CLEANUP)) is not None:
            warnings.append(
                f"Ignoring '{prefix}{_CLEANUP}={policy}' setting, since compaction is always used"
            )
        known_keys = {*(prefix + name for name in TOPIC_SETTINGS), *(key.name for key in DISTRIBUTED)}
        warnings += [
            f"{name} is passed to the topic, but is not a known topic setting{suggest_key(name, known_keys)}"
            for name in raw
            if name.startswith(prefix)
            and name not in known_keys
            and name not in _STANDALONE_ONLY
            and name != "config.storage.partitions"
        ]
    return [*warnings, *worker_warnings(raw, DISTRIBUTED, _STANDALONE_ONLY, TOPIC_PREFIXES)]
