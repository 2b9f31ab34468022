"""The config keys of the mirror source, and the settings of its clients.

Source: MirrorSourceConfig, MirrorConnectorConfig, DefaultTopicFilter (Kafka 4.3.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.checks import at_least, non_empty, one_of, rule
from kraal.config.java_regex import find_pattern_error
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Recommendation, in_group
from kraal.config.values import as_strings, invalid

_PACKAGE: Final = "org.apache.kafka.connect.mirror"
DEFAULT_POLICY: Final = f"{_PACKAGE}.DefaultReplicationPolicy"
IDENTITY_POLICY: Final = f"{_PACKAGE}.IdentityReplicationPolicy"
ALL_TOPICS: Final = (".*",)
SOURCE_SERVERS: Final = "source.cluster.bootstrap.servers"
TARGET_SERVERS: Final = "target.cluster.bootstrap.servers"
ASSIGNED_PARTITIONS: Final = "task.assigned.partitions"
"""The task config key for the assigned partitions, in the form `TOPIC-NUMBER,…`. Source: MirrorSourceConfig."""
INDEX: Final = "task.index"
TRIGGER: Final = "trigger"
BATCH: Final = "batch"
REALTIME: Final = "realtime"
BATCH_MS: Final = "realtime.batch.ms"
_CONFIGS_NOT_SYNCED: Final = "settings are copied only when a topic is created"
_ACLS_NOT_SYNCED: Final = "ACLs are not copied"


@rule("names and Java regular expressions")
def validate_patterns(name: str, value: object) -> str | None:
    """Require regular expressions; topic names are valid expressions."""
    for entry in (value,) if isinstance(value, str) else as_strings(value):
        if (reason := find_pattern_error(entry)) is not None:
            return invalid(name, entry, f"Invalid regex: {reason}")
    return None


def _check_mutually_exclusive(name: str, values: Mapping[str, object]) -> Recommendation:
    if values.get(name) is not None and as_strings(values.get("topics")) != ALL_TOPICS:
        raise ValueError("topics and topics.regex are mutually exclusive options, but both are set.")
    return Recommendation()


def _make_key(name: str, kind: ConfigType, default: object, doc: str, no_effect: str = "") -> Key:
    """Declare a config key of low importance."""
    validator = at_least(0) if kind in {ConfigType.INT, ConfigType.LONG, ConfigType.SHORT} else None
    return Key(
        name=name,
        type=kind,
        default=default,
        validator=validator,
        importance=Importance.LOW,
        doc=doc,
        no_effect=no_effect,
    )


_CLUSTERS: Final = in_group(
    "Clusters",
    Key(
        name="source.cluster.alias",
        type=ConfigType.STRING,
        validator=non_empty,
        importance=Importance.HIGH,
        doc="Alias of the source cluster. It prefixes topic names in the target cluster and is part of the offsets.",
    ),
    Key(
        name="target.cluster.alias",
        type=ConfigType.STRING,
        default="target",
        importance=Importance.HIGH,
        doc="Alias of the target cluster. Topics that were copied from it are not copied back.",
    ),
    Key(
        name=SOURCE_SERVERS,
        type=ConfigType.STRING,
        validator=non_empty,
        importance=Importance.HIGH,
        doc="Addresses of the source cluster, `host:port`, separated by commas.",
    ),
    Key(
        name=TARGET_SERVERS,
        type=ConfigType.STRING,
        validator=non_empty,
        importance=Importance.HIGH,
        doc="Addresses of the cluster in which topics are created. It must be the cluster that the producers write "
        "to: the worker's own, unless `producer.override.bootstrap.servers` is set.",
    ),
    _make_key(
        "admin.timeout.ms",
        ConfigType.LONG,
        60000,
        "Timeout for listing or creating topics of a cluster.",
    ),
)

_TOPICS: Final = in_group(
    "Topics",
    Key(
        name="topics",
        type=ConfigType.LIST,
        default=ALL_TOPICS,
        validator=validate_patterns,
        importance=Importance.HIGH,
        doc="Topics to copy: names and regular expressions that match whole names, separated by commas.",
    ),
    Key(
        name="topics.regex",
        type=ConfigType.STRING,
        default=None,
        validator=validate_patterns,
        importance=Importance.HIGH,
        doc="One regular expression instead of `topics`; it can contain commas.",
        recommender=_check_mutually_exclusive,
    ),
    Key(
        name="topics.exclude",
        type=ConfigType.LIST,
        default=(r".*[\-\.]internal", r".*\.replica", "__.*"),
        validator=validate_patterns,
        importance=Importance.HIGH,
        doc="Topics to exclude even if `topics` contains them: names and regular expressions.",
    ),
    _make_key(
        "heartbeats.replication.enabled",
        ConfigType.BOOLEAN,
        True,  # noqa: FBT003 - a default
        "Whether to copy topics named `heartbeats` even if `topics` does not contain them.",
    ),
    _make_key(
        "refresh.topics.enabled",
        ConfigType.BOOLEAN,
        True,  # noqa: FBT003 - a default
        "Whether to look for new topics and partitions while the connector runs.",
    ),
    _make_key(
        "refresh.topics.interval.seconds",
        ConfigType.LONG,
        600,
        "Interval between checks for new topics and partitions, in seconds.",
    ),
    Key(
        name="enabled",
        type=ConfigType.BOOLEAN,
        default=True,
        importance=Importance.LOW,
        doc="Whether to copy topics; with false the connector has no tasks.",
    ),
)

_NAMING: Final = in_group(
    "Naming",
    Key(
        name="replication.policy.class",
        type=ConfigType.STRING,
        default=DEFAULT_POLICY,
        validator=one_of(DEFAULT_POLICY, IDENTITY_POLICY),
        importance=Importance.LOW,
        doc="How topics are named in the target cluster: with the alias of the source cluster as a prefix, or "
        "unchanged.",
    ),
    Key(
        name="replication.policy.separator",
        type=ConfigType.STRING,
        default=".",
        validator=non_empty,
        importance=Importance.LOW,
        doc="Separator between the alias and the topic.",
    ),
    _make_key(
        "replication.policy.internal.topic.separator.enabled",
        ConfigType.BOOLEAN,
        True,  # noqa: FBT003 - a default
        "Whether the names of MirrorMaker's internal topics, which are not copied, contain the separator instead "
        "of a dot.",
    ),
)

_CREATED_TOPICS: Final = in_group(
    "Topics of the target",
    _make_key(
        "replication.factor",
        ConfigType.INT,
        2,
        "Replication factor of topics that are created in the target cluster.",
    ),
    Key(
        name="config.properties.exclude",
        type=ConfigType.LIST,
        default=(
            r"follower\.replication\.throttled\.replicas",
            r"leader\.replication\.throttled\.replicas",
            r"message\.timestamp\.difference\.max\.ms",
            r"message\.timestamp\.type",
            r"unclean\.leader\.election\.enable",
            r"min\.insync\.replicas",
        ),
        validator=validate_patterns,
        importance=Importance.HIGH,
        doc="Topic settings that are not copied when a topic is created: names and regular expressions.",
    ),
)

_COPYING: Final = in_group(
    "Copying",
    Key(
        name=TRIGGER,
        type=ConfigType.STRING,
        default=BATCH,
        validator=one_of(BATCH, REALTIME),
        importance=Importance.MEDIUM,
        doc="How records are copied. `batch` runs no Spark jobs while there are no new records. `realtime` copies "
        "records within milliseconds, and occupies one of Spark's task slots for each partition.",
        recommender=lambda _name, _values: Recommendation(values=(BATCH, REALTIME)),
    ),
    Key(
        name=BATCH_MS,
        type=ConfigType.LONG,
        default=60000,
        validator=at_least(5000),
        importance=Importance.LOW,
        doc="Duration of a Spark batch with `trigger=realtime`, in milliseconds. Between two batches, records wait a "
        "few tenths of a second. Offsets are stored every second, regardless of this setting.",
    ),
)

_SYNCS: Final = in_group(
    "Offset syncs",
    _make_key(
        "emit.offset-syncs.enabled",
        ConfigType.BOOLEAN,
        True,  # noqa: FBT003 - a default
        "Whether to write the offset-syncs topic, with which MirrorCheckpointConnector translates the offsets of "
        "consumer groups.",
    ),
    _make_key(
        "offset-syncs.topic.replication.factor",
        ConfigType.SHORT,
        3,
        "Replication factor of the offset-syncs topic, if the connector creates it.",
    ),
    Key(
        name="offset-syncs.topic.location",
        type=ConfigType.STRING,
        default="source",
        validator=one_of("source", "target"),
        importance=Importance.LOW,
        doc="Cluster that contains the offset-syncs topic.",
    ),
    _make_key(
        "offset.lag.max",
        ConfigType.LONG,
        100,
        "Number of records in a partition after which another offset sync is written. The last record of each batch "
        "always has an offset sync.",
    ),
)

_KEYS_WITHOUT_EFFECT: Final = in_group(
    "Not in use",
    _make_key(
        "consumer.poll.timeout.ms",
        ConfigType.LONG,
        1000,
        "Maximum time that one poll waits for records.",
        "tasks are notified of new records immediately",
    ),
    _make_key(
        "sync.topic.configs.enabled",
        ConfigType.BOOLEAN,
        True,  # noqa: FBT003 - a default
        "Whether to synchronize topic settings.",
        _CONFIGS_NOT_SYNCED,
    ),
    _make_key(
        "sync.topic.configs.interval.seconds",
        ConfigType.LONG,
        600,
        "Synchronization interval, in seconds.",
        _CONFIGS_NOT_SYNCED,
    ),
    _make_key(
        "sync.topic.acls.enabled",
        ConfigType.BOOLEAN,
        True,  # noqa: FBT003 - a default
        "Whether to synchronize ACLs.",
        _ACLS_NOT_SYNCED,
    ),
    _make_key(
        "sync.topic.acls.interval.seconds",
        ConfigType.LONG,
        600,
        "Synchronization interval, in seconds.",
        _ACLS_NOT_SYNCED,
    ),
)

MIRROR: Final = ConfigDef(
    [*_CLUSTERS, *_TOPICS, *_NAMING, *_CREATED_TOPICS, *_COPYING, *_SYNCS, *_KEYS_WITHOUT_EFFECT]
)


def make_source_consumer_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the source cluster's consumers, by the names of Kafka's Java client.

    Later prefixes take precedence: `source.cluster.*`, `consumer.*`, `source.consumer.*`. Settings of the worker do not
    apply.
    Source: MirrorConnectorConfig.sourceConsumerConfig.
    """
    settings = _merge_prefixed_settings(config, "source", "consumer")
    return {"auto.offset.reset": "earliest", **settings}


def make_source_admin_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the admin client that lists the source cluster's topics."""
    return _merge_prefixed_settings(config, "source", "admin")


def make_target_admin_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the admin client that creates topics in the target cluster."""
    return _merge_prefixed_settings(config, "target", "admin")


def make_sync_producer_settings(config: Mapping[str, str], location: str) -> dict[str, str]:
    """Return the settings of the producer of offset syncs; `location`: `source` or `target`."""
    return _merge_prefixed_settings(config, location, "producer")


def _merge_prefixed_settings(config: Mapping[str, str], cluster: str, client: str) -> dict[str, str]:
    connector_keys = frozenset(key.name for key in MIRROR)
    settings: dict[str, str] = {}
    for prefix in (f"{cluster}.cluster.", f"{client}.", f"{cluster}.{client}."):
        for key, value in config.items():
            if not key.startswith(prefix) or key.startswith(f"{client}.override."):
                continue
            is_connector_key = key in connector_keys and key not in {SOURCE_SERVERS, TARGET_SERVERS}
            if not is_connector_key:
                settings[key.removeprefix(prefix)] = value
    return settings
