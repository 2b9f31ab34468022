"""Herder state: what the herder knows and has told other actors, and the few ways in which it changes.

Used on the herder's thread only, by the herder and the parts that it is made of (`actors.herding`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from actors.herding.history import History
from actors.herding.pending_writes import PendingWrites
from actors.messages.stores import Append
from actors.messages.worker import Assign
from kraal.cluster.decisions.auto_restart import Watched
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.config_replay import (
    ConnectorChanged,
    ConnectorRemoved,
    LoggerChanged,
    RestartRequested,
)
from kraal.cluster.state.statuses import StatusState
from kraal.cluster.state.wanted_work import Assignment, Wanted, changes, wanted_of
from kraal.config.connector.auto_restart import AutoRestart
from kraal.core.ids import ConnectorName, Instance, TargetState, TaskId, WorkerId, connector_of
from kraal.core.log_levels import Loggers
from kraal.journal.journal import off
from kraal.protocol.signature import DEFAULT_ALGORITHM, KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.herding.pending_writes import Then
    from actors.messages.herder import InstanceChanged, TaskConfigsMade
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address, Reply
    from kraal.cluster.decisions.restart import RestartRequest
    from kraal.cluster.state.config_replay import Event, Reduced, Skipped
    from kraal.cluster.state.status_replay import StatusesReduced
    from kraal.cluster.views.snapshot import Published, Snapshot
    from kraal.config.worker.config import WorkerConfig
    from kraal.core.ids import Config
    from kraal.core.records import Entry

log = logging.getLogger(__name__)

KEEP_SKIPPED = 20


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKeySettings:
    """Settings of the keys that this worker writes as leader: `inter.worker.key.*`."""

    algorithm: str = DEFAULT_ALGORITHM
    size: int = KEY_BYTES[DEFAULT_ALGORITHM]
    """In bytes."""
    ttl_ms: int = 3_600_000


_STOPPING_S = 10.0
"""How long an instance may take to report after its graceful timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderSettings:
    """Settings of the herder."""

    worker_id: WorkerId
    standalone: bool
    """Answer restarts and create requests when the work is done, as in KIP-745 and Connect's standalone mode."""
    topic_tracking: bool = True
    topic_reset: bool = True
    shown_restarting_s: float = 15.0
    """Maximum time to show RESTARTING while the instance reports nothing."""
    session_keys: SessionKeySettings = SessionKeySettings()
    signature_algorithm: str = DEFAULT_ALGORITHM
    """For requests to other workers: `inter.worker.signature.algorithm`."""
    group_id: str = ""
    """Of the cluster; prefix of the tasks' transactional ids."""
    transactional: bool = False
    """The leader writes in transactions: `exactly.once.source.support` is `preparing` or `enabled`."""
    auto_restart: AutoRestart = field(default_factory=AutoRestart)
    """Default restart policy for failed instances, unless the connector sets it: `errors.auto.restart*`."""
    chance: Callable[[], float] = random.random
    """Random number from 0 to 1, so that instances that failed together do not restart together."""

    @classmethod
    def of(cls, config: WorkerConfig, worker_id: WorkerId, *, standalone: bool) -> HerderSettings:
        """Return those that every worker's config has; `dataclasses.replace` sets the others."""
        return cls(
            worker_id=worker_id,
            standalone=standalone,
            topic_tracking=config.topic_tracking,
            topic_reset=config.topic_tracking_reset,
            shown_restarting_s=config.graceful_timeout_s + _STOPPING_S,
            auto_restart=config.auto_restart,
        )


@dataclass(frozen=True, slots=True)
class RestartHistory:
    """Restart history that a herder leaves to the next one in this process. The herder's thread only."""

    restart_counts: dict[Instance, int] = field(default_factory=dict)
    """Number of restarts of each instance, for whatever reason."""
    watched: dict[Instance, Watched] = field(default_factory=dict)
    """Failed instances of this worker, with their automatic restarts."""
    due: dict[ConnectorName, RestartRequest] = field(default_factory=dict)
    """Requests that were read and are carried out when no rebalance is under way."""
    renewed: dict[ConnectorName, TaskConfigsMade] = field(default_factory=dict)
    """The latest task configs with new values that were published: the tasks are not restarted for them again."""


_ADOPTED: Mapping[str, str] = {}
"""Config of adopted instances that have not been compared yet."""


class HerderState:
    """Cluster state as this worker knows it, and what the worker actor was told."""

    def __init__(
        self,
        *,
        actors: ActorReferences,
        settings: HerderSettings,
        clock: Clock,
        published: Published,
        kind_of: Callable[[Config], str],
        tokens: Iterator[int],
        lease: Callable[[], bool],
        waits_for: Callable[[], str | None],
        restart_history: RestartHistory | None = None,
        refuse: Callable[[str], None] | None = None,
        loggers: Loggers | None = None,
        history: History | None = None,
    ) -> None:
        """`published`, `tokens` and `restart_history` outlive the herder; `kind_of` returns source, sink or unknown.

        `lease` tells whether this worker may act for its group now.
        `waits_for` returns why the engine is not up; None if it is.
        `refuse` ends a process that must not join its group; None: it joins even if plugins are missing.
        `loggers` receive cluster-wide levels; None: all loggers of this process.
        `history` records what happens; None: nothing does.
        """
        self.actors = actors
        self.settings = settings
        self.clock = clock
        self.lease = lease
        self.waits_for = waits_for
        self.refuse = refuse
        self.loggers = loggers or Loggers()
        self.history = history or _no_history(settings)
        self.waits = PendingWrites(tokens)
        """Requests that wait for a record of the config log."""
        self.status_waits = PendingWrites(tokens)
        """Requests that wait for a record of the status log."""
        self.assignment = Assignment()
        restart_history = restart_history or RestartHistory()
        self.restart_counts = restart_history.restart_counts
        self.watched = restart_history.watched
        self.restarts_due = restart_history.due
        self.renewed = restart_history.renewed
        self.live = False
        """Replay and report are complete: snapshots are published and the worker receives its work."""
        self.announced: set[Instance] = set()
        """Instances that the worker was told about and has not reported as stopped."""
        self._leaving: set[Instance] = set()
        """Those of them that are no longer wanted."""
        self.suspended: dict[ConnectorName, int] = {}
        """Connectors whose tasks stop until an assignment is based on these task configs or newer ones."""
        self.statuses_owed: set[int] = set()
        """Tokens of unanswered status writes."""
        self._published = published
        self._kind_of = kind_of
        self._missed_from = published.latest.config.offset if published.latest.live else None
        """Offset in the config log up to which earlier herders of this process have read; None: there was none."""
        self._snapshot = replace(published.latest, config=ClusterState(), status=StatusState())
        self._wanted: dict[ConnectorName, dict[Instance, Wanted]] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The current state, published unless a replay is under way."""
        return self._snapshot

    def kind_of(self, config: Config) -> str:
        """Return `source`, `sink`, or `unknown`: this worker does not have the config's class."""
        return self._kind_of(config)

    def update(self, **parts: Any) -> None:
        """Replace parts of the snapshot, and publish it."""
        number = self._published.latest.number + 1
        self._snapshot = replace(self._snapshot, number=number, **parts)
        if self.live:
            self._published.publish(self._snapshot)

    def skip(self, topic: str, records: Sequence[Skipped]) -> None:
        """Log and publish records that cannot be applied."""
        if not records:
            return
        for record in records:
            log.error("Skipped an invalid record of the %s log: %s", topic, record)
        self.history.skipped(topic, records)
        skipped = (*self._snapshot.skipped, *(f"{topic}@{r}" for r in records))
        self.update(skipped=skipped[-KEEP_SKIPPED:])

    def update_config(self, reduced: Reduced) -> None:
        """Set the state that config records lead to, and the types of connectors whose class may have changed."""
        config, types = reduced.state, dict(self._snapshot.types)
        self.history.configs_read(reduced, self._snapshot.status)
        for name in {e.name for e in reduced.events if isinstance(e, ConnectorChanged | ConnectorRemoved)}:
            entry = config.connectors.get(name)
            if entry is None:
                types.pop(name, None)
            else:
                types[name] = self._kind_of(entry.config)
        self.update(config=config, types=types)
        self.skip("config", reduced.skipped)

    def missed(self, events: Iterable[Event]) -> list[Event]:
        """Return the restart requests and levels that were written while this process had no herder."""
        if self._missed_from is None:
            return []
        commands = (e for e in events if isinstance(e, RestartRequested | LoggerChanged))
        return [e for e in commands if e.offset >= self._missed_from]

    def update_status(self, reduced: StatusesReduced) -> None:
        """Set the state that status records lead to."""
        self.history.statuses_read(reduced, live=self.live)
        self.update(status=reduced.state)
        self.skip("status", reduced.skipped)

    def wanted(self, name: ConnectorName) -> Mapping[Instance, Wanted]:
        """Return the instances of a connector that the worker was told to run."""
        return self._wanted.get(name, {})

    def write_config(
        self, entries: Sequence[Entry], reply: Reply[Any], then: Then, *, leased: bool = True
    ) -> None:
        """Write to the config log; `then` runs when the records have been read back, or `reply` fails.

        `leased`: write only with a lease, for records that only the leader may write.
        """
        token = self.waits.expect(reply, then, (entry.key for entry in entries))
        append = Append(token=token, entries=entries, reply_to=self.actors.herder, leased=leased)
        self.actors.config_writer.tell(append)

    def write_status(
        self, entries: Sequence[Entry], reply: Reply[None] | None = None, *, leased: bool = False
    ) -> None:
        """Write to the status log, retrying until it succeeds; `reply`, if any, fails with the first attempt.

        `leased`: write only with a lease.
        """
        if not entries:
            return
        token = self.status_waits.token() if reply is None else self.status_waits.expect(reply, _nothing)
        self.statuses_owed.add(token)
        append = Append(token=token, entries=entries, reply_to=self.actors.herder, leased=leased)
        self.actors.status_writer.tell(append)

    def apply_wanted(
        self, names: Iterable[ConnectorName], *, together: frozenset[Instance] = frozenset()
    ) -> None:
        """Tell the worker which instances of these connectors to run from now on.

        `together`: none of these starts before all have stopped.
        """
        if not self.live:
            return
        delta: dict[Instance, Wanted | None] = {}
        for name in names:
            entry = self._snapshot.config.connectors.get(name)
            after = {} if entry is None else wanted_of(entry, self.assignment, self.restart_counts)
            if name in self.suspended:
                after = {i: w for i, w in after.items() if not isinstance(i, TaskId)}
            delta.update(changes(self._wanted.get(name, {}), after))
            if after:
                self._wanted[name] = after
            else:
                self._wanted.pop(name, None)
        if delta:
            self.announced.update(delta)
            for instance, wanted in delta.items():
                (self._leaving.add if wanted is None else self._leaving.discard)(instance)
            self.actors.worker.tell(Assign(delta, together))

    def assign(self, assignment: Assignment) -> set[ConnectorName]:
        """Set a new assignment; return the connectors with added or removed instances."""
        before, self.assignment = self.assignment, assignment
        tasks = before.tasks ^ assignment.tasks
        return {t.connector for t in tasks} | (before.connectors ^ assignment.connectors)

    def adopt(self, running: Mapping[Instance, InstanceChanged]) -> None:
        """Adopt running instances as the assignment until the real one arrives, so that they are compared with it."""
        self.assignment = Assignment(
            connectors=frozenset(i for i in running if not isinstance(i, TaskId)),
            tasks=frozenset(i for i in running if isinstance(i, TaskId)),
        )
        for instance, fact in running.items():
            # The target is unknown; STOPPED differs from any running instance's, so the target is sent again.
            placeholder = Wanted(
                incarnation=fact.incarnation, target=TargetState.STOPPED, connector_config=_ADOPTED
            )
            self._wanted.setdefault(connector_of(instance), {})[instance] = placeholder
            self.announced.add(instance)

    def tell_again(self, running: Mapping[Instance, InstanceChanged]) -> None:
        """Repeat all wanted instances: the worker may have died with a message in its mailbox."""
        delta: dict[Instance, Wanted | None] = {i: None for i in running if i in self.announced}
        for wanted in self._wanted.values():
            delta.update(wanted)
        self.actors.worker.tell(Assign(delta))

    def told_names(self) -> set[ConnectorName]:
        """Return the connectors that the worker may still run instances of."""
        return {connector_of(i) for i in self.announced}

    def leaving(self) -> bool:
        """Return whether an instance that is no longer wanted still runs."""
        return bool(self._leaving)

    def instance_stopped(self, instance: Instance) -> None:
        """Note that the worker has stopped an instance, and forget it unless it is wanted again."""
        name = connector_of(instance)
        wanted = self._wanted.get(name, {})
        if instance in wanted and wanted[instance].connector_config is _ADOPTED:
            del wanted[instance]  # wanted by an earlier herder; it is not started again
        if instance not in self.wanted(name):
            self.announced.discard(instance)
            self._leaving.discard(instance)


def _no_history(settings: HerderSettings) -> History:
    return History(off(), worker_id=settings.worker_id, standalone=settings.standalone)


def _nothing() -> None:
    """Do nothing: waiting requests check the records when they are read."""
