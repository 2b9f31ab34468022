"""The immutable picture that the herder publishes after every change, and that GETs render from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kraal.cluster.assign import GroupPlan
from kraal.cluster.state import ClusterState
from kraal.cluster.status import StatusState
from kraal.cluster.supervision import Watched
from kraal.ids import ConnectorName, Generation, Instance, WorkerId
from kraal.protocol.group import GroupProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What the worker is doing, or did last. Times are wall-clock milliseconds since the epoch."""

    what: str
    """As in Connect's texts: `reading to the end of the config topic`, …"""
    began_ms: int
    completed_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One consistent picture. `number` rises with every publication, so renderings can be cached by it."""

    number: int = 0
    ready: bool = False
    """Start-up is over: internal topics were read to their ends and command-line connectors created."""
    started_up: bool = True
    """The command line's connectors, if there are any, exist. Here, so that each herder of the process knows it."""
    live: bool = False
    """`config` and `status` hold what is stored; before that they say nothing."""
    worker_id: WorkerId
    leader_url: str | None = None
    is_leader: bool = False
    protocol: GroupProtocol | None = None
    """What the group speaks since the last rebalance; None in standalone, and before."""
    plan: GroupPlan | None = None
    """What this worker, as leader, assigned in the last rebalance; None elsewhere."""
    planned_ms: int = 0
    """When, by the wall clock; of `plan`."""
    kafka_cluster_id: str | None = None
    generation: Generation = Generation(0)
    config: ClusterState = field(default_factory=ClusterState)
    status: StatusState = field(default_factory=StatusState)
    restarting: frozenset[Instance] = frozenset()
    """Instances shown as RESTARTING although their stored status is older (contract 0.2)."""
    watched: Mapping[Instance, Watched] = field(default_factory=dict)
    """What has failed on this worker, and whether it is restarted by itself."""
    types: Mapping[ConnectorName, str] = field(default_factory=dict)
    """`source`, `sink` or `unknown` by connector."""
    stage: Stage | None = None
    skipped: tuple[str, ...] = ()
    """Internal-topic records that could not be applied: `topic@offset: reason`, newest last, at most 20."""


class Published:
    """Holds the latest snapshot. Written by the herder only; read from any thread, without a lock."""

    def __init__(self, first: Snapshot) -> None:
        self._latest = first

    @property
    def latest(self) -> Snapshot:
        """The snapshot as of now."""
        return self._latest

    def publish(self, snapshot: Snapshot) -> None:
        """Make `snapshot` what readers see from now on. Called by the herder alone."""
        self._latest = snapshot


def missing_plugins(snapshot: Snapshot) -> str | None:
    """Say why a worker must not join a group whose connectors it cannot all run; None when it can.

    A worker that joined would be given such connectors, and fail them, although others could run them.
    """
    unknown = [name for name, kind in sorted(snapshot.types.items()) if kind == "unknown"]
    if not unknown:
        return None
    listed = ", ".join(
        f"{n} ({snapshot.config.connectors[n].config.get('connector.class')})" for n in unknown
    )
    return (
        f"This worker lacks the classes of these connectors of its group, and so does not join it: {listed}. "
        "Install their plugins, or set mixed.group.missing.plugins=fail-task to join and fail what comes here."
    )
