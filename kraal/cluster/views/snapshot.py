"""The immutable snapshot that the herder publishes after every change, and that GETs render from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kraal.cluster.assignment.leader import GroupPlan
from kraal.cluster.decisions.auto_restart import Watched
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
    """As in Connect's texts: `reading to the end of the config topic`, …"""
    began_ms: int
    completed_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One consistent snapshot. `number` increases with every publication, so that renderings can be cached by it."""

    number: int = 0
    ready: bool = False
    """Startup is over: internal topics were read to their ends and command-line connectors created."""
    started_up: bool = True
    """The command line's connectors, if any, exist. Kept here so that each herder of the process knows it."""
    live: bool = False
    """`config` and `status` have the stored state; they are meaningless before."""
    worker_id: WorkerId
    leader_url: str | None = None
    is_leader: bool = False
    protocol: GroupProtocol | None = None
    """Protocol of the group since the last rebalance; None in standalone mode and before the first one."""
    plan: GroupPlan | None = None
    """Plan that this worker made as leader in the last rebalance; None on other workers."""
    rebalances: tuple[Rebalance, ...] = ()
    """The latest rebalances that this worker took part in, the newest first; if there is a `plan`, its own is first."""
    kafka_cluster_id: str | None = None
    generation: Generation = Generation(0)
    config: ClusterState = field(default_factory=ClusterState)
    status: StatusState = field(default_factory=StatusState)
    restarting: frozenset[Instance] = frozenset()
    """Instances shown as RESTARTING although their stored status is older (KIP-745)."""
    watched: Mapping[Instance, Watched] = field(default_factory=dict)
    """Instances that failed on this worker, with their automatic restarts."""
    types: Mapping[ConnectorName, str] = field(default_factory=dict)
    """`source`, `sink` or `unknown` by connector."""
    stage: Stage | None = None
    skipped: tuple[str, ...] = ()
    """Internal-topic records that could not be applied: `topic@offset: reason`, newest last, at most 20."""


class Published:
    """Holds the latest snapshot. Written by the herder only; read from any thread, without a lock."""

    def __init__(self, first: Snapshot) -> None:
        self._latest = first
        self._listeners: tuple[Callable[[], None], ...] = ()

    @property
    def latest(self) -> Snapshot:
        """The current snapshot."""
        return self._latest

    def publish(self, snapshot: Snapshot) -> None:
        """Set the snapshot that readers see from now on. Called by the herder only."""
        self._latest = snapshot
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each publication, on the herder's thread: it must neither block nor raise."""
        self._listeners = (*self._listeners, listener)


def missing_plugins(snapshot: Snapshot) -> str | None:
    """Return why a worker must not join a group because it lacks plugins; None when it may join.

    Otherwise it would be assigned such connectors and fail them, although other workers could run them.
    """
    unknown = [name for name, kind in sorted(snapshot.types.items()) if kind == "unknown"]
    if not unknown:
        return None
    listed = ", ".join(f"{n} ({_plugin_text(snapshot.config.connectors[n].config)})" for n in unknown)
    return (
        f"This worker lacks the plugins of these connectors of its group, and so does not join it: {listed}. "
        "Install them, or set mixed.group.missing.plugins=fail-task to join and fail what comes here."
    )


def _plugin_text(config: Config) -> str:
    """Return the class that a connector's config names, and the version if it requires one."""
    name, version = config.get("connector.class"), config.get(CONNECTOR_VERSION)
    return str(name) if version is None else f"{name}, version {version}"
