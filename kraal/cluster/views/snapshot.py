"""The immutable snapshot that the herder publishes after every change, and from which GET responses are rendered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kraal.cluster.assignment.leader import GroupPlan
from kraal.cluster.decisions.auto_restart import FailureHistory
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.statuses import StatusState
from kraal.cluster.views.rebalances import Rebalance
from kraal.config.connector.keys import CONNECTOR_VERSION
from kraal.core.ids import Config, ConnectorName, Generation, Instance, WorkerId
from kraal.protocol.group import GroupProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The worker's current or last operation (TickThreadStage). Times are wall-clock milliseconds since the epoch."""

    what: str
    """Description in Connect's wording: `reading to the end of the config topic`, …"""
    began_ms: int
    completed_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One consistent snapshot. `number` increases with every publication and can serve as a cache key."""

    number: int = 0
    ready: bool = False
    """Whether startup is complete: work was assigned, and connectors given on the command line exist."""
    started_up: bool = True
    """Whether connectors given on the command line, if any, exist. Stored here because snapshots outlive a herder."""
    live: bool = False
    """Whether `config` and `status` contain the stored state; otherwise, both are meaningless."""
    worker_id: WorkerId
    leader_url: str | None = None
    is_leader: bool = False
    protocol: GroupProtocol | None = None
    """Protocol of the group since the last rebalance; None in standalone mode and before the first rebalance."""
    plan: GroupPlan | None = None
    """Plan of the last rebalance if this worker is the leader; otherwise None."""
    rebalances: tuple[Rebalance, ...] = ()
    """The latest rebalances in which this worker participated, newest first; the first belongs to `plan`, if set."""
    kafka_cluster_id: str | None = None
    generation: Generation = Generation(0)
    config: ClusterState = field(default_factory=ClusterState)
    status: StatusState = field(default_factory=StatusState)
    restarting: frozenset[Instance] = frozenset()
    """Instances shown as RESTARTING instead of their stored state (KIP-745)."""
    watched: Mapping[Instance, FailureHistory] = field(default_factory=dict)
    """Instances that failed on this worker, with their automatic restarts."""
    types: Mapping[ConnectorName, str] = field(default_factory=dict)
    """`source`, `sink` or `unknown` by connector."""
    stage: Stage | None = None
    skipped: tuple[str, ...] = ()
    """The latest records of the logs that could not be applied, newest last: `topic@offset: key: reason`."""


class Published:
    """Holder of the latest snapshot, written by the herder only. Thread-safe without a lock."""

    def __init__(self, first: Snapshot) -> None:
        self._latest = first
        self._listeners: tuple[Callable[[], None], ...] = ()

    @property
    def latest(self) -> Snapshot:
        """The current snapshot."""
        return self._latest

    def publish(self, snapshot: Snapshot) -> None:
        """Replace the snapshot and notify the listeners. Called by the herder only."""
        self._latest = snapshot
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each publication, on the herder's thread. `listener` must neither block nor raise."""
        self._listeners = (*self._listeners, listener)


def missing_plugins(snapshot: Snapshot) -> str | None:
    """Return the reason why missing plugins prevent the worker from joining its group; None if the worker may join.

    A member without the plugins would be assigned connectors that fail on it, although other workers can run them.
    """
    unknown_connectors = [name for name, kind in sorted(snapshot.types.items()) if kind == "unknown"]
    if not unknown_connectors:
        return None
    connectors = ", ".join(
        f"{name} ({_plugin_text(snapshot.config.connectors[name].config)})" for name in unknown_connectors
    )
    return (
        "This worker does not join its group, because the plugins of these connectors are not installed: "
        f"{connectors}. Install them, or set mixed.group.missing.plugins=fail-task to join; these connectors then fail "
        "on this worker."
    )


def _plugin_text(config: Config) -> str:
    """Return the class in a connector's config, with the version if the config requires one."""
    name, version = config.get("connector.class"), config.get(CONNECTOR_VERSION)
    return str(name) if version is None else f"{name}, version {version}"
