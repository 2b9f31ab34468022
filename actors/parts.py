"""Parts from which a worker is assembled; they differ between a process and a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.exactly_once import claims
from actors.exactly_once.fencer import Fence
from actors.herding.state import HerderSettings
from actors.herding.task_config_publisher import Send, send_to_leader
from actors.logs.reader import Follow
from actors.membership.state import CONFIG_WAIT_TIMEOUT_S
from kraal.cluster.decisions.actor_restart_budget import ActorRestartBudget
from kraal.cluster.membership.member_state import MemberSettings
from kraal.core.log_levels import Loggers
from kraal.journal.journal import DEFAULT_BYTES
from kraal.metrics.task import TaskMeter
from kraal.metrics.windows import Windows

if TYPE_CHECKING:
    from actors.instances.plugins import Plugins
    from actors.runtime.clock import Clock
    from actors.runtime.system import System
    from kraal.engine.api import Engine
    from kraal.protocol.group import ConnectorOrTask, ConnectProtocol
    from kraal.stores.api import GroupOffsets, Log, OffsetStore
    from kraal.stores.group_api import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """Additional parts of a worker in a cluster."""

    group: Group
    """Group that the worker joins when the herder has read the logs. The group's creator must close it."""
    protocol: ConnectProtocol
    static_assignment: tuple[ConnectorOrTask, ...] | None = None
    """Static assignment of this worker (KIP-987), if any."""
    member: MemberSettings = field(default_factory=MemberSettings)
    follow: Follow = field(default_factory=Follow)
    """Timing of reads from logs that other workers also write to."""
    send: Send = send_to_leader
    """Sends task configs to the leader."""
    refuse: Callable[[str], None] | None = None
    """Called with a reason if missing plugin classes prevent the join; if None, the worker joins anyway."""
    fence: Fence
    """Fences the producers of older tasks."""
    transactions: claims.SourceTransactions | None = None
    """Provides exactly-once delivery for sources; None disables it."""
    send_fence: claims.SendFence = claims.fence_at_leader
    """Sends a fencing request to the leader."""
    config_wait_timeout_s: float = CONFIG_WAIT_TIMEOUT_S
    """Maximum time for which this worker, as leader, blocks the group's thread to wait for its config reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Parts from which a worker is assembled."""

    system: System
    clock: Clock
    engine: Engine
    plugins: Plugins
    config_log: Log
    status_log: Log
    offsets: OffsetStore
    group_offsets: Callable[[], GroupOffsets]
    """Creates a client for the offsets of sinks' consumer groups, for one request. Thread-safe."""
    settings: HerderSettings
    leader_url: str
    graceful_s: float = 5.0
    """`task.shutdown.graceful.timeout.ms`."""
    offset_write_interval_s: float = 0.0
    """Minimum interval between two writes of source offsets; 0 writes at once."""
    cluster: ClusterParts | None = None
    """None in standalone mode."""
    budget: ActorRestartBudget = field(default_factory=ActorRestartBudget)
    windows: Windows = field(default_factory=Windows)
    """`metrics.sample.window.ms` and `metrics.num.samples`."""
    meter: Callable[..., TaskMeter] = TaskMeter
    """Creates the meter of each incarnation of a task, with `TaskMeter`'s arguments."""
    stall_timeout_s: float = 60.0
    """`task.stall.timeout.ms`; 0 disables stall detection."""
    loggers: Loggers = field(default_factory=Loggers)
    """Loggers of this process. They outlive the herder, and store the times at which levels were changed."""
    history_max_bytes: int = DEFAULT_BYTES
    """`rest.history.max.bytes`; 0 disables the history."""
    ledger_log: Log | None = None
    """Log of the totals of delivered records; None disables the ledger."""
    keeps_configs: bool = True
    """Whether the config log outlives the process."""
    creates_connectors: bool = False
    """Whether the process creates the connectors given on the command line, and then sends `StartupDone`."""
