"""Derivation of flows and of the configs of their workers and connectors from MirrorMaker's properties file.

Pure; the workers and connectors validate their configs. A flow replicates from one cluster to another.
Source: MirrorMakerConfig, MirrorMaker (Kafka 4.3.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from typing_extensions import override

from kraal.config.clients.keys import client_names
from kraal.config.connector.converters import BYTES
from kraal.config.connector.java_plugins import DISCOVERY, JAVA_PLUGINS, PATH
from kraal.config.values import split_list
from kraal.core.errors import BadRequest

CLUSTERS: Final = "clusters"
HEARTBEATS: Final = "emit.heartbeats.enabled"
INTERNAL_REST: Final = "dedicated.mode.enable.internal.rest"
CONNECTORS: Final = ("MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector")
LOOPBACK: Final = "http://127.0.0.1:0"
"""Default listener of a flow's worker: any free port."""
_PACKAGE: Final = "org.apache.kafka.connect.mirror."
_PROVIDERS: Final = "config.providers"
_CLIENT_PREFIXES: Final = ("producer.", "consumer.", "admin.")
_CLIENT_PATTERN: Final = re.compile("consumer|producer|admin")
_CONVERTER_KEYS: Final = ("key.converter", "value.converter", "header.converter")
_WORKER_PREFIXES: Final = (
    *("offset.storage", "config.storage", "status.storage"),
    *_CONVERTER_KEYS,
    *("task", "worker", "replication.policy"),
)
"""Prefixes of keys that apply to all workers."""
_CONNECTOR_KEYS: Final = """
    admin.timeout.ms checkpoints.topic.replication.factor config.action.reload config.properties.exclude
    config.property.filter.class config.providers connector.class connector.plugin.version consumer.poll.timeout.ms
    emit.checkpoints.enabled emit.checkpoints.interval.seconds emit.heartbeats.enabled
    emit.heartbeats.interval.seconds emit.offset-syncs.enabled enabled errors.log.enable errors.log.include.messages
    errors.retry.delay.max.ms errors.retry.timeout errors.tolerance forwarding.admin.class group.filter.class groups
    groups.exclude header.converter header.converter.plugin.version heartbeats.replication.enabled
    heartbeats.topic.replication.factor key.converter key.converter.plugin.version metric.names.formats
    metric.reporters name offset-syncs.topic.location offset-syncs.topic.replication.factor offset.lag.max predicates
    refresh.groups.enabled refresh.groups.interval.seconds refresh.topics.enabled refresh.topics.interval.seconds
    replication.factor replication.policy.class replication.policy.internal.topic.separator.enabled
    replication.policy.separator security.protocol source.cluster.alias sync.group.offsets.enabled
    sync.group.offsets.interval.seconds sync.topic.acls.enabled sync.topic.acls.interval.seconds
    sync.topic.configs.enabled sync.topic.configs.interval.seconds target.cluster.alias tasks.max tasks.max.enforce
    topic.filter.class topics topics.exclude transforms value.converter value.converter.plugin.version
"""
"""Keys of the three connectors, except TLS and SASL keys."""
_LISTENER_PREFIXES: Final = ("listeners", "rest.", "admin.listeners")
_KRAAL_PREFIXES: Final = ("kraal.", "config.providers", *JAVA_PLUGINS)
"""Prefixes of keys that Kraal's workers receive, although MirrorMaker's workers do not."""

Properties = Mapping[str, str]


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """A source cluster and a target cluster, by their aliases."""

    source: str
    target: str

    @override
    def __str__(self) -> str:
        return f"{self.source}->{self.target}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `SOURCE->TARGET`. Raises ValueError."""
        source, arrow, target = text.partition("->")
        if not (source and arrow and target):
            raise ValueError(text)
        return cls(source, target)


def parse_flows(raw: Properties, targets: Iterable[str] = ()) -> list[Flow]:
    """Return the sorted flows that need a worker. With `targets`, return only the flows into these clusters.

    A flow needs a worker if it is enabled, or if heartbeats are enabled, because the worker of B->A writes the
    heartbeats of A->B to A. Raises BadRequest if no flow needs a worker, or if a target is not a cluster of the file.
    """
    if CLUSTERS not in raw:
        raise BadRequest(f'Missing required configuration "{CLUSTERS}" which has no default value.')
    clusters = sorted(set(split_list(raw[CLUSTERS])))
    wanted_targets = set(targets) or set(clusters)
    if unknown_targets := sorted(wanted_targets - set(clusters)):
        raise BadRequest(
            f"Unknown cluster '{unknown_targets[0]}'; expected one or more of {', '.join(clusters)}."
        )
    pairs = [Flow(source, target) for source in clusters for target in clusters if source != target]
    flows = [flow for flow in pairs if flow.target in wanted_targets and _needs_worker(raw, flow)]
    if not flows:
        raise BadRequest(
            f"No source->target replication flows between the clusters '{raw[CLUSTERS]}'; "
            "set SOURCE->TARGET.enabled=true."
        )
    return flows


def _needs_worker(raw: Properties, flow: Flow) -> bool:
    heartbeats = raw.get(f"{flow}.{HEARTBEATS}", raw.get(HEARTBEATS, "true"))
    return _is_true(raw.get(f"{flow}.enabled", "false")) or _is_true(heartbeats)


def worker_config(raw: Properties, flow: Flow) -> dict[str, str]:
    """Return the config of a flow's worker as derived by MirrorMaker, with variables unresolved."""
    config = _cluster_settings(raw, flow.target)
    for prefix in _WORKER_PREFIXES:
        config |= _with_prefix(raw, prefix)
    config |= _with_prefix(raw, _PROVIDERS)
    defaults = {
        "client.id": str(flow),
        "group.id": f"{flow.source}-mm2",
        **{
            f"{kind}.storage.topic": f"mm2-{name}.{flow.source}.internal"
            for kind, name in (("offset", "offsets"), ("status", "status"), ("config", "configs"))
        },
        **dict.fromkeys(_CONVERTER_KEYS, BYTES),
    }
    return {**defaults, **config}


def connector_configs(raw: Properties, flow: Flow) -> dict[str, dict[str, str]]:
    """Return the configs of a flow's three connectors by name, with variables unresolved."""
    names = {*_CONNECTOR_KEYS.split(), *_security_keys()}
    common_settings = {key: text for key, text in raw.items() if key in names}
    common_settings |= _with_prefix(raw, _PROVIDERS) | _with_prefix(raw, "replication.policy")
    for side, cluster in (("source.", flow.source), ("target.", flow.target)):
        for key, text in _cluster_settings(raw, cluster).items():
            common_settings[side + ("" if _CLIENT_PATTERN.match(key) else "cluster.") + key] = text
    flow_config = _without_prefix(raw, f"{flow}.")
    configs = {}
    for name in CONNECTORS:
        defaults = {
            "name": name,
            "connector.class": _PACKAGE + name,
            "source.cluster.alias": flow.source,
            "target.cluster.alias": flow.target,
        }
        configs[name] = {"enabled": "false", **defaults, **common_settings, **flow_config}
    return configs


def kraal_config(raw: Properties, flow: Flow, flow_index: int, plugins: Sequence[str]) -> dict[str, str]:
    """Return the config of Kraal's worker for a flow: MirrorMaker's config with listeners and the plugin path.

    Args:
        raw: the properties of the file.
        flow: a flow in the file.
        flow_index: index of the flow in the file. Added to ports, because each worker needs its own ports.
        plugins: directories with MirrorMaker's plugins.
    """
    config = {
        key: text
        for key, text in worker_config(raw, flow).items()
        if not key.startswith("replication.policy") and key != "tasks.max"  # keys of the connectors
    }
    config |= {key: text for key, text in raw.items() if key.startswith(_KRAAL_PREFIXES)}
    if PATH not in raw:
        config.setdefault(DISCOVERY, "service_load")
    config[PATH] = ",".join([*plugins, *split_list(raw.get(PATH, ""))])
    if not _is_true(raw.get(INTERNAL_REST, "false")):
        return {**config, "listeners": LOOPBACK}
    overrides = {key: text for key, text in raw.items() if key.startswith(_LISTENER_PREFIXES)}
    for key in ("listeners", "admin.listeners"):
        if key in overrides:
            overrides[key] = ",".join(
                _move_port(listener, flow_index) for listener in split_list(overrides[key])
            )
    if overrides.get("rest.advertised.port", "").isdecimal():
        overrides["rest.advertised.port"] = str(int(overrides["rest.advertised.port"]) + flow_index)
    return {**config, **overrides}


def _move_port(listener: str, offset: int) -> str:
    """Return a listener with `offset` added to its port, except for port 0, which means any free port."""
    host, colon, port = listener.rpartition(":")
    return f"{host}{colon}{int(port) + offset}" if port.isdecimal() and int(port) else listener


def _cluster_settings(raw: Properties, alias: str) -> dict[str, str]:
    """Return the settings of one cluster, with defaults for its clients."""
    config = _without_prefix(raw, f"{alias}.")
    shared_keys = ["bootstrap.servers", *sorted(_security_keys())]
    for settings in (dict(config), raw):
        for key in shared_keys:
            if (text := settings.get(key)) is not None:
                for client in _CLIENT_PREFIXES:
                    config.setdefault(client + key, text)
                config.setdefault(key, text)
    return config


def _security_keys() -> frozenset[str]:
    security_settings = (name for name in client_names() if name.startswith(("ssl.", "sasl.")))
    return frozenset([*security_settings, "security.protocol"])


def _with_prefix(raw: Properties, prefix: str) -> dict[str, str]:
    return {key: text for key, text in raw.items() if key.startswith(prefix)}


def _without_prefix(raw: Properties, prefix: str) -> dict[str, str]:
    config = {key.removeprefix(prefix): text for key, text in raw.items() if key.startswith(prefix)}
    config.pop("", None)
    return config


def _is_true(text: str) -> bool:
    return text.lower() == "true"
