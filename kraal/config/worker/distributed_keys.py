"""The keys of a distributed worker, in addition to those of all workers. Source: DistributedConfig (Kafka 4.4.0)."""

from __future__ import annotations

import re
from typing import Final

from kraal.config.checks import at_least, between, non_empty, one_of, one_of_ignoring_case, rule
from kraal.config.clients.keys import client_def
from kraal.config.key import REQUIRED, ConfigType, Importance, Key
from kraal.config.key_families import Family
from kraal.config.values import as_strings, invalid
from kraal.config.worker.keys import WORKER, worker_key
from kraal.protocol.group import ConnectProtocol
from kraal.protocol.signature import DEFAULT_ALGORITHM, DIGESTS, KEY_BYTES

_BOOLEAN, _INT, _LIST, _LONG = ConfigType.BOOLEAN, ConfigType.INT, ConfigType.LIST, ConfigType.LONG
_SHORT, _STRING = ConfigType.SHORT, ConfigType.STRING
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_MAX_INT: Final = 2**31 - 1
_MAX_DIGITS: Final = len(str(_MAX_INT))
_SOURCE: Final = "DistributedConfig"

EXACTLY_ONCE: Final = "exactly.once.source.support"
PROTOCOL: Final = "connect.protocol"
KEY_ALGORITHM: Final = "inter.worker.key.generation.algorithm"
KEY_SIZE: Final = "inter.worker.key.size"
SIGNATURE: Final = "inter.worker.signature.algorithm"
VERIFICATION: Final = "inter.worker.verification.algorithms"
MISSING_PLUGINS: Final = "mixed.group.missing.plugins"
UNSIGNED: Final = "internal.requests.unsigned"
MAX_IDLE: Final = "connections.max.idle.ms"
RESOLVE_TIMEOUT: Final = "bootstrap.resolve.timeout.ms"
CREATE_TOPICS: Final = "internal.topics.automatic.creation.enable"
STATIC_CONNECTORS: Final = "static.connectors"
STATIC_TASKS: Final = "static.tasks"

LEDGER_TOPIC: Final = "ledger.storage.topic"
TOPIC_PREFIXES: Final = ("config.storage.", "offset.storage.", "status.storage.", "ledger.storage.")
"""Prefixes of the settings of internal topics."""


_POSITIVE_OR_DEFAULT: Final = "1 or more, or -1 for the broker's default"


@rule(_POSITIVE_OR_DEFAULT)
def _check_partitions(name: str, value: object) -> str | None:
    if isinstance(value, int) and value != -1 and value < 1:
        reason = "Number of partitions must be positive, or -1 to use the broker's default"
        return invalid(name, value, reason)
    return None


@rule(_POSITIVE_OR_DEFAULT)
def _check_replication_factor(name: str, value: object) -> str | None:
    if isinstance(value, int) and value != -1 and value < 1:
        reason = (
            "Replication factor must be positive and not larger than the number of brokers in the Kafka "
            "cluster, or -1 to use the broker's default"
        )
        return invalid(name, value, reason)
    return None


@rule(f"{', '.join(f'`{protocol}`' for protocol in ConnectProtocol)}, in any letter case")
def _check_protocol(name: str, value: object) -> str | None:
    text = str(value).lower()
    if text in set(ConnectProtocol):
        return None
    reason = f"Invalid Connect protocol compatibility: it must be one of {', '.join(ConnectProtocol)}"
    return invalid(name, value, reason)


_TASK_ID: Final = re.compile(r"(.+)-([0-9]+)", re.DOTALL)


def parse_static_task(text: str) -> tuple[str, int] | None:
    """Split a task id at its last hyphen; return None if it is invalid. Task numbers are 32-bit integers."""
    match = _TASK_ID.fullmatch(text)
    if match is None or len(match[2]) > _MAX_DIGITS or not match[1].strip() or int(match[2]) > _MAX_INT:
        return None
    return match[1], int(match[2])


@rule("names of connectors, not blank")
def _check_static_connectors(name: str, value: object) -> str | None:
    if all(entry.strip() for entry in as_strings(value)):
        return None
    return invalid(name, value, "an entry is blank; each must be the name of a connector")


@rule("task ids: a connector's name, a hyphen and a number")
def _check_static_tasks(name: str, value: object) -> str | None:
    invalid_id = next((entry for entry in as_strings(value) if parse_static_task(entry) is None), None)
    if invalid_id is None:
        return None
    reason = (
        f"'{invalid_id}' is not the id of a task; each entry must be a connector's name, a hyphen and the task's "
        "number, as in my-connector-0"
    )
    return invalid(name, value, reason)


def _unsupported_error(name: str, value: object, supported: object) -> str:
    reason = f"the algorithm is not supported by this worker; the supported algorithms are: {supported}"
    return invalid(name, value, reason)


@rule(", ".join(f"`{algorithm}`" for algorithm in KEY_BYTES))
def _check_key_algorithm(name: str, value: object) -> str | None:
    return None if value in KEY_BYTES else _unsupported_error(name, value, ", ".join(KEY_BYTES))


@rule(", ".join(f"`{algorithm}`" for algorithm in DIGESTS))
def _check_signature_algorithm(name: str, value: object) -> str | None:
    return None if value in DIGESTS else _unsupported_error(name, value, ", ".join(DIGESTS))


@rule("one or more of " + ", ".join(f"`{algorithm}`" for algorithm in DIGESTS))
def _check_signature_algorithms(name: str, value: object) -> str | None:
    algorithms = as_strings(value)
    if not algorithms:
        return invalid(name, value, "At least one signature verification algorithm must be provided")
    return next(
        (
            error
            for algorithm in algorithms
            if (error := _check_signature_algorithm(name, algorithm)) is not None
        ),
        None,
    )


_GROUP = [
    worker_key("group.id", _STRING, _HIGH, "Name of the cluster; workers with the same name share its work.",
         default=REQUIRED, check=non_empty, source=_SOURCE),
    worker_key("client.id", _STRING, _LOW, "Name of this worker in the brokers' logs.", default="",
         source=_SOURCE),
    worker_key("session.timeout.ms", _INT, _HIGH,
         "Milliseconds without a heartbeat after which the group removes a worker.",
         default=10_000, check=at_least(1), source=_SOURCE),
    worker_key("heartbeat.interval.ms", _INT, _HIGH,
         "Interval between heartbeats, in milliseconds. Must be lower than session.timeout.ms, and should be at "
         "most a third of it.",
         default=3_000, check=at_least(1), source=_SOURCE),
    worker_key("rebalance.timeout.ms", _INT, _HIGH,
         "Maximum time for each worker to join after a rebalance has started, in milliseconds. "
         "connections.max.idle.ms must be at least as large, or the connection to the coordinator may be closed "
         "during the rebalance.",
         default=60_000, check=at_least(1), source=_SOURCE),
    worker_key("worker.sync.timeout.ms", _INT, _MEDIUM,
         "Maximum time for a worker to read the configs up to the leader's offset, in milliseconds.",
         default=3_000, check=at_least(0), source=_SOURCE),
    worker_key("worker.unsync.backoff.ms", _INT, _MEDIUM,
         "Milliseconds that a worker stays out of the group if it did not read the configs in time.",
         default=300_000, check=at_least(0), source=_SOURCE),
    worker_key(PROTOCOL, _STRING, _LOW,
         "Protocol of rebalances. eager stops all work at each rebalance; compatible stops only work "
         "that moves; sessioned also signs requests between workers; static also assigns "
         "static.connectors and static.tasks to the workers that list them. The group uses the newest "
         "protocol that all its workers support.",
         default="static", check=_check_protocol, source=f"{_SOURCE}, KIP-987"),
    worker_key(STATIC_CONNECTORS, _LIST, _LOW,
         "Names of connectors that are reserved for this worker. A worker with this list or static.tasks "
         "runs nothing else, and the listed connectors run on no other worker while it is in the group. "
         "The list does not include the connectors' tasks, which belong in static.tasks. Ignored unless every "
         "worker of the group has connect.protocol=static.",
         check=_check_static_connectors, source="KIP-987"),
    worker_key(STATIC_TASKS, _LIST, _LOW,
         "Ids of tasks that are reserved for this worker: the connector's name, a hyphen and the task's "
         "number, as in my-connector-0. See static.connectors.",
         check=_check_static_tasks, source="KIP-987"),
    worker_key("scheduled.rebalance.max.delay.ms", _INT, _LOW,
         "Maximum time to wait for the return of a departed worker before its connectors and tasks are reassigned, "
         "in milliseconds.",
         default=300_000, check=between(0, _MAX_INT), source=_SOURCE),
    worker_key(EXACTLY_ONCE, _STRING, _HIGH,
         "Whether sources write records and offsets in transactions: disabled, preparing or enabled. "
         "With preparing, only the leader writes in transactions, to the config topic. To enable transactions "
         "of sources, set preparing on all workers of the group, one after the other, and then enabled.",
         default="disabled", check=one_of_ignoring_case("DISABLED", "PREPARING", "ENABLED"), source=_SOURCE),
    worker_key(CREATE_TOPICS, _BOOLEAN, _MEDIUM,
         "Whether the worker creates missing internal topics: its config, offset and status topic, and the "
         "offsets.storage.topic of connectors. If false, a worker whose topics are missing does not start; "
         "`kraal topics create` creates them.",
         default=True, source=f"{_SOURCE}, KIP-1209"),
    worker_key(MISSING_PLUGINS, _STRING, _LOW,
         "What to do if the group has connectors whose classes this worker lacks: refuse to join "
         "(refuse), or join and fail their tasks that are assigned to this worker (fail-task).",
         default="refuse", check=one_of("refuse", "fail-task"), source="Kraal"),
    worker_key(UNSIGNED, _STRING, _LOW,
         "What to do with unsigned requests of other workers if basic authentication is on and the "
         "group's protocol is older than sessioned: refuse them, or allow them from everyone.",
         default="refuse", check=one_of("refuse", "allow"), source="Kraal"),
    worker_key("kraal.data.dir", _STRING, _LOW,
         "Directory for temporary files of the worker. Default: a directory below the system's temporary "
         "directory.",
         check=non_empty, source="Kraal"),
]  # fmt: skip

_SIGNING = [
    worker_key("inter.worker.key.ttl.ms", _INT, _LOW,
         "Interval at which the leader replaces the session key, in milliseconds; 0: never.",
         default=3_600_000, check=between(0, _MAX_INT), source=_SOURCE),
    worker_key(KEY_ALGORITHM, _STRING, _LOW, "Algorithm of session keys.",
         default=DEFAULT_ALGORITHM, check=_check_key_algorithm, source=_SOURCE),
    worker_key(KEY_SIZE, _INT, _LOW, "Size of session keys in bits. Default: the algorithm's own size.",
         source=_SOURCE),
    worker_key(SIGNATURE, _STRING, _LOW, "Algorithm with which this worker signs requests to other workers.",
         default=DEFAULT_ALGORITHM, check=_check_signature_algorithm, source=_SOURCE),
    worker_key(VERIFICATION, _LIST, _LOW, "Signature algorithms that this worker accepts from other workers.",
         default=(DEFAULT_ALGORITHM,), check=_check_signature_algorithms, source=_SOURCE),
]  # fmt: skip


def _topic_keys(prefix: str, content: str, partitions: int | None) -> list[Key]:
    """Declare the keys of an internal topic; `partitions` is None for a topic that always has one partition."""
    keys = [
        worker_key(f"{prefix}topic", _STRING, _HIGH, f"Topic that stores {content}.",
             default=REQUIRED, check=non_empty, source=_SOURCE),
        worker_key(f"{prefix}replication.factor", _SHORT, _LOW,
             "Replication factor of the topic when it is created; -1: the broker's default.",
             default=3, check=_check_replication_factor, source=_SOURCE),
    ]  # fmt: skip
    if partitions is not None:
        doc = "Number of partitions of the topic when it is created; -1: the broker's default."
        name = f"{prefix}partitions"
        keys.append(
            worker_key(name, _INT, _LOW, doc, default=partitions, check=_check_partitions, source=_SOURCE)
        )
    return keys


_LEDGER = [
    worker_key(LEDGER_TOPIC, _STRING, _LOW,
         "Compacted topic that stores how many records each task has delivered (docs/proof.md). The worker creates "
         "the topic if it is missing. Default: no ledger.",
         check=non_empty, source="Kraal"),
    worker_key("ledger.storage.replication.factor", _SHORT, _LOW,
         "Replication factor of the topic when it is created; -1: the broker's default.",
         default=3, check=_check_replication_factor, source="Kraal"),
]  # fmt: skip

_CLIENT = [
    worker_key("metadata.max.age.ms", _LONG, _LOW, "Milliseconds after which the metadata of brokers is refreshed.",
         default=300_000, check=at_least(0), source=_SOURCE),
    worker_key("request.timeout.ms", _INT, _MEDIUM, "Maximum time to wait for a broker's response, in milliseconds.",
         default=40_000, check=at_least(0), source=_SOURCE),
    worker_key(MAX_IDLE, _LONG, _MEDIUM,
         "Milliseconds after which an idle connection is closed. Should be at least rebalance.timeout.ms.",
         default=540_000, source=_SOURCE),
    worker_key("send.buffer.bytes", _INT, _MEDIUM, "Size of the TCP send buffer in bytes; -1: the system's default.",
         default=131_072, check=at_least(-1), source=_SOURCE),
    worker_key("receive.buffer.bytes", _INT, _MEDIUM,
         "Size of the TCP receive buffer in bytes; -1: the system's default.",
         default=32_768, check=at_least(-1), source=_SOURCE),
    worker_key("retry.backoff.ms", _LONG, _LOW, "Milliseconds before a failed request is retried.",
         default=100, check=at_least(0), source=_SOURCE),
    worker_key("retry.backoff.max.ms", _LONG, _LOW,
         "Maximum time between two attempts of a request, in milliseconds.",
         default=1_000, check=at_least(0), source=_SOURCE),
    worker_key("reconnect.backoff.ms", _LONG, _LOW, "Milliseconds before connecting to a broker again.",
         default=50, check=at_least(0), source=_SOURCE),
    worker_key("reconnect.backoff.max.ms", _LONG, _LOW,
         "Maximum time between two attempts to connect to a broker, in milliseconds.",
         default=1_000, check=at_least(0), source=_SOURCE),
    worker_key("socket.connection.setup.timeout.ms", _LONG, _LOW,
         "Timeout for connecting, in milliseconds.",
         default=10_000, check=at_least(0), source=_SOURCE),
    worker_key("socket.connection.setup.timeout.max.ms", _LONG, _LOW,
         "Maximum timeout for connecting after failures, in milliseconds.",
         default=30_000, check=at_least(0), source=_SOURCE),
    worker_key("metadata.cluster.check.enable", _BOOLEAN, _LOW,
         "Whether brokers of Kafka 4.4 check that a connection is meant for them; without effect, because this "
         "worker's clients do not send the ids that brokers check.",
         default=True, source=f"{_SOURCE}, KIP-1242"),
    worker_key(RESOLVE_TIMEOUT, _LONG, _LOW,
         "Time for resolving bootstrap.servers in the background, in milliseconds. Not supported by Connect: "
         "values other than 0 are ignored with a warning.",
         default=0, check=at_least(0), source=f"{_SOURCE}, KIP-909"),
    worker_key("metadata.recovery.strategy", _STRING, _LOW,
         "What to do if no known broker can be reached: connect to bootstrap.servers again "
         "(rebootstrap), or nothing (none).",
         default="rebootstrap", check=one_of_ignoring_case("NONE", "REBOOTSTRAP"), source=_SOURCE),
    worker_key("metadata.recovery.rebootstrap.trigger.ms", _LONG, _LOW,
         "Milliseconds without a response from any known broker after which the worker connects to "
         "bootstrap.servers again.",
         default=300_000, check=at_least(0), source=_SOURCE),
    worker_key("security.protocol", _STRING, _MEDIUM, "Protocol of connections to brokers.", default="PLAINTEXT",
         check=one_of_ignoring_case("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), source=_SOURCE),
]  # fmt: skip

_SECURITY = [key for key in client_def("admin") if key.name.startswith(("ssl.", "sasl."))]

DISTRIBUTED: Final = WORKER.merge(
    [
        *_GROUP,
        *_topic_keys("config.storage.", "connector configs", None),
        *_topic_keys("offset.storage.", "sources' offsets", 25),
        *_topic_keys("status.storage.", "states of connectors and tasks", 5),
        *_LEDGER,
        *_SIGNING,
        *_CLIENT,
        *_SECURITY,
    ]
)

TOPIC_FAMILIES: Final = tuple(
    Family(
        prefix=prefix,
        rest="SETTING",
        doc=f"A setting of the topic that {prefix}topic names, applied when the topic is created. "
        "cleanup.policy is always compact, and the config and ledger topics have one partition.",
    )
    for prefix in TOPIC_PREFIXES
)

TOPIC_SETTINGS: Final = frozenset(
    {
        "cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type",
        "compression.zstd.level", "delete.retention.ms", "file.delete.delay.ms", "flush.messages", "flush.ms",
        "follower.replication.throttled.replicas", "index.interval.bytes",
        "leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms",
        "max.compaction.lag.ms", "max.message.bytes", "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms", "min.insync.replicas", "preallocate", "remote.log.copy.disable",
        "remote.log.delete.on.disable", "remote.storage.enable", "retention.bytes", "retention.ms",
        "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms",
        "unclean.leader.election.enable",
    }
)  # fmt: skip
"""Settings of topics. Source: TopicConfig."""
