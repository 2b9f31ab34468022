"""Herder state: the snapshot that the herder publishes, and the objects that its parts share.

Used on the herder's thread only, by the herder and its parts (`actors.herding`). Each field has one owner, which
changes it through its methods: this class owns the snapshot, `Work` the assignment and the instances that were
assigned to the worker actor, `LogWrites` the pending writes. Of the `RestartHistory`, `Work` owns the restart counts,
`AutoRestarts` the failed instances, `Restarts` the requests and `TaskConfigs` the published task configs.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from actors.herding.history import History
from actors.herding.ledger_cleanup import LedgerCleanup
from actors.herding.pending_writes import LogWrites
from actors.herding.work import Work
from kraal.cluster.decisions.auto_restart import FailureHistory
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.config_replay import (
    ConnectorChanged,
    ConnectorRemoved,
    LoggerChanged,
    RestartRequested,
)
from kraal.cluster.state.statuses import StatusState
from kraal.config.connector.auto_restart import AutoRestart
from kraal.core.ids import ConnectorName, Instance, WorkerId
from kraal.core.log_levels import Loggers
from kraal.journal.journal import disabled_journal
from kraal.protocol.signature import DEFAULT_ALGORITHM, KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.messages.herder import TaskConfigsGenerated
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from kraal.cluster.decisions.restart import RestartRequest
    from kraal.cluster.state.config_replay import ConfigReplayResult, Event, SkippedRecord
    from kraal.cluster.state.status_replay import StatusReplayResult
    from kraal.cluster.views.snapshot import Published, Snapshot
    from kraal.config.worker.config import WorkerConfig
    from kraal.core.ids import Config

log = logging.getLogger(__name__)

MAX_SKIPPED_RECORDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorReferences:
    """Addresses of the actors that the herder sends messages to."""

    herder: Address
    worker: Address
    validator: Address
    config_writer: Address
    config_reader: Address
    status_writer: Address
    status_reader: Address
    publisher: Address
    fencer: Address
    offset_service: Address
    ledger: Address | None = None
    """The keeper of the ledger; None without a ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKeySettings:
    """Settings of the session keys that this worker writes as leader: `inter.worker.key.*`."""

    algorithm: str = DEFAULT_ALGORITHM
    size: int = KEY_BYTES[DEFAULT_ALGORITHM]
    """Key size in bytes."""
    ttl_ms: int = 3_600_000


_MAX_REPORT_DELAY_S = 10.0
"""Time allowed for an instance's report after the graceful timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderSettings:
    """Settings of the herder."""

    worker_id: WorkerId
    standalone: bool
    """Whether the worker is standalone; restart and create requests then complete only after they have taken effect."""
    topic_tracking: bool = True
    topic_reset: bool = True
    restarting_timeout_s: float = 15.0
    """Maximum time to show RESTARTING while the instance reports nothing."""
    session_keys: SessionKeySettings = SessionKeySettings()
    signature_algorithm: str = DEFAULT_ALGORITHM
    """Algorithm of signatures of requests to other workers: `inter.worker.signature.algorithm`."""
    group_id: str = ""
    """Group id of the cluster; prefix of the tasks' transactional ids."""
    transactional: bool = False
    """Whether the leader writes in transactions: `exactly.once.source.support` is `preparing` or `enabled`."""
    auto_restart: AutoRestart = field(default_factory=AutoRestart)
    """Restart policy for failed instances of connectors that do not set `errors.auto.restart*`."""
    chance: Callable[[], float] = random.random
    """Returns a random number from 0 to 1, which spreads the restarts of instances that failed at the same time."""

    @classmethod
    def of(cls, config: WorkerConfig, worker_id: WorkerId, *, standalone: bool) -> HerderSettings:
        """Return settings from a worker config of either mode; the caller sets the other fields with `replace`."""
        return cls(
            worker_id=worker_id,
            standalone=standalone,
            topic_tracking=config.topic_tracking,
            topic_reset=config.topic_tracking_reset,
            restarting_timeout_s=config.graceful_timeout_s + _MAX_REPORT_DELAY_S,
            auto_restart=config.auto_restart,
        )


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """Restart history, which outlives the herder. Used on the herder's thread only."""

    restart_counts: dict[Instance, int] = field(default_factory=dict)
    """Number of restarts of each instance, for any reason."""
    failure_histories: dict[Instance, FailureHistory] = field(default_factory=dict)
    """Failed instances of this worker with their automatic restarts."""
    due_requests: dict[ConnectorName, RestartRequest] = field(default_factory=dict)
    """Requests that were read and will be executed when no rebalance is in progress."""
    renewed_configs: dict[ConnectorName, TaskConfigsGenerated] = field(default_factory=dict)
    """The latest published task configs with renewed values; if reported again, they do not restart the tasks."""


class HerderState:
    """Cluster state as this worker has read it, and the shared objects of the herder's parts."""

    def __init__(
        self,
        *,
        actors: ActorReferences,
        settings: HerderSettings,
        clock: Clock,
        published: Published,
        connector_type: Callable[[Config], str],
        tokens: Iterator[int],
        lease: Callable[[], bool],
        waiting_reason: Callable[[], str | None],
        restart_history: RestartHistory | None = None,
        refuse: Callable[[str], None] | None = None,
        loggers: Loggers | None = None,
        history: History | None = None,
    ) -> None:
        """`published`, `tokens` and `restart_history` outlive the herder.

        `connector_type` returns source, sink or unknown. `lease` returns whether this worker may act for its group now.
        `waiting_reason` returns the reason why the engine is not ready; None if the engine is ready.
        `refuse` exits a process that must not join its group; if None, the process joins even if plugins are missing.
        Cluster-wide requests set the levels of `loggers`; by default, all loggers of this process.
        `history` records events; None disables it.
        """
        self.actors = actors
        self.settings = settings
        self.clock = clock
        self.lease = lease
        self.waiting_reason = waiting_reason
        self.refuse = refuse
        self.loggers = loggers or Loggers()
        self.history = history or _disabled_history(settings)
        self.restart_history = restart_history or RestartHistory()
        self.writes = LogWrites(actors, tokens)
        self.work = Work(
            worker=actors.worker,
            connectors=lambda: self.snapshot.config.connectors,
            is_live=lambda: self.live,
            restart_counts=self.restart_history.restart_counts,
        )
        self.ledger = LedgerCleanup(actors.ledger, standalone=settings.standalone)
        self._live = False
        self._published = published
        self._connector_type = connector_type
        self._missed_from = published.latest.config.offset if published.latest.live else None
        """Config offset up to which earlier herders of this process have read; None for the first herder."""
        self._snapshot = replace(published.latest, config=ClusterState(), status=StatusState())

    @property
    def live(self) -> bool:
        """Whether the replay is complete and the worker's report has arrived; snapshots are published only then."""
        return self._live

    def go_live(self) -> None:
        """Publish snapshots and send the worker its work, beginning with the next `update`."""
        self._live = True

    @property
    def snapshot(self) -> Snapshot:
        """The current state, published unless a replay is in progress."""
        return self._snapshot

    def connector_type(self, config: Config) -> str:
        """Return `source` or `sink`; `unknown` if the class in `connector.class` is not installed on this worker."""
        return self._connector_type(config)

    def update(self, **parts: Any) -> None:
        """Replace parts of the snapshot, and publish it."""
        number = self._published.latest.number + 1
        self._snapshot = replace(self._snapshot, number=number, **parts)
        if self._live:
            self._published.publish(self._snapshot)

    def skip(self, topic: str, records: Sequence[SkippedRecord]) -> None:
        """Log and publish records that cannot be applied."""
        if not records:
            return
        for record in records:
            log.error("Skipped an invalid record of the %s log: %s", topic, record)
        self.history.record_skipped(topic, records)
        skipped = (*self._snapshot.skipped, *(f"{topic}@{r}" for r in records))
        self.update(skipped=skipped[-MAX_SKIPPED_RECORDS:])

    def update_config(self, result: ConfigReplayResult) -> None:
        """Apply config records, and update the types of connectors whose class may have changed."""
        config, types = result.state, dict(self._snapshot.types)
        self.history.record_configs(result, self._snapshot.status)
        self.ledger.on_config_read(result.events, is_leader=self._snapshot.is_leader)
        for name in {e.name for e in result.events if isinstance(e, ConnectorChanged | ConnectorRemoved)}:
            entry = config.connectors.get(name)
            if entry is None:
                types.pop(name, None)
            else:
                types[name] = self._connector_type(entry.config)
        self.update(config=config, types=types)
        self.skip("config", result.skipped)

    def find_missed(self, events: Iterable[Event]) -> list[Event]:
        """Return the restart requests and log levels that were written while this process had no herder."""
        if self._missed_from is None:
            return []
        commands = (e for e in events if isinstance(e, RestartRequested | LoggerChanged))
        return [e for e in commands if e.offset >= self._missed_from]

    def update_status(self, result: StatusReplayResult) -> None:
        """Apply status records."""
        self.history.record_statuses(result, is_live=self._live)
        self.update(status=result.state)
        self.skip("status", result.skipped)


def _disabled_history(settings: HerderSettings) -> History:
    return History(disabled_journal(), worker_id=settings.worker_id, standalone=settings.standalone)
