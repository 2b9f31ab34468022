"""What the herder knows and has told others: its state, and the few ways in which it changes.

Used on the herder's thread only, by the herder and its three parts (`requests`, `restarts`, `statuses`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from actors.messages.stores import Append
from actors.messages.worker import Assign
from actors.waits import Waits
from kraal.cluster.state import ClusterState
from kraal.cluster.status import StatusState
from kraal.cluster.supervision import Watched
from kraal.cluster.work import Assignment, Wanted, changes, wanted_of
from kraal.config.supervision import AutoRestart
from kraal.ids import ConnectorName, Instance, TargetState, TaskId, WorkerId, connector_of
from kraal.loggers import Loggers
from kraal.protocol.signature import DEFAULT_ALGORITHM, KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.clock import Clock
    from actors.mailbox import Address, Reply
    from actors.messages.herder import InstanceChanged
    from actors.waits import Then
    from kraal.cluster.reduce import Skipped
    from kraal.cluster.snapshot import Published, Snapshot
    from kraal.ids import Config
    from kraal.records import Entry

log = logging.getLogger(__name__)

KEEP_SKIPPED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Whom the herder talks to."""

    herder: Address
    worker: Address
    validator: Address
    config_writer: Address
    config_reader: Address
    status_writer: Address
    status_reader: Address
    publisher: Address
    fencer: Address
    offset_desk: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKeySettings:
    """Of the keys that this worker writes as leader: `inter.worker.key.*`."""

    algorithm: str = DEFAULT_ALGORITHM
    size: int = KEY_BYTES[DEFAULT_ALGORITHM]
    """Bytes."""
    ttl_ms: int = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderSettings:
    """How this worker herds."""

    worker_id: WorkerId
    standalone: bool
    """Answer restarts and creations when the work is done, as KIP-745 and Connect's standalone have it."""
    topic_tracking: bool = True
    topic_reset: bool = True
    shown_restarting_s: float = 15.0
    """How long RESTARTING is shown before the instance says something: graceful timeout + 10 s."""
    session_keys: SessionKeySettings = SessionKeySettings()
    signature_algorithm: str = DEFAULT_ALGORITHM
    """Of requests to other workers: `inter.worker.signature.algorithm`."""
    group_id: str = ""
    """Of the cluster: tasks' transactional ids begin with it."""
    transactional: bool = False
    """The leader writes in transactions: `exactly.once.source.support` is `preparing` at least."""
    auto_restart: AutoRestart = field(default_factory=AutoRestart)
    """What becomes of what has failed, where a connector does not say it: `errors.auto.restart*`."""
    chance: Callable[[], float] = random.random
    """From 0 to 1: so that what failed together does not come back together."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a herder leaves to the next one in this process. The herder's thread only."""

    restart_counts: dict[Instance, int] = field(default_factory=dict)
    """How often each instance was restarted, by anybody."""
    watched: dict[Instance, Watched] = field(default_factory=dict)
    """What has failed here, and whether it is restarted."""


_ADOPTED: Mapping[str, str] = {}
"""The config of what was adopted and has not been compared yet."""


class Herd:
    """State of the cluster as this worker knows it, and what the worker was told."""

    def __init__(
        self,
        *,
        links: Links,
        settings: HerderSettings,
        clock: Clock,
        published: Published,
        kind_of: Callable[[Config], str],
        tokens: Iterator[int],
        lease: Callable[[], bool],
        ledger: Ledger | None = None,
        refuse: Callable[[str], None] | None = None,
        loggers: Loggers | None = None,
    ) -> None:
        """`published`, `tokens` and `ledger` outlive the herder; `kind_of` says source, sink or unknown of a config.

        `lease` says whether this worker may act for its group now.
        `refuse` ends the process that must not join its group; None: it joins whatever it lacks.
        `loggers` are those that cluster-wide levels are for; None: all of this process.
        """
        self.links = links
        self.settings = settings
        self.clock = clock
        self.lease = lease
        self.refuse = refuse
        self.loggers = loggers or Loggers()
        self.waits = Waits(tokens)
        """Who waits for a record of the config log."""
        self.status_waits = Waits(tokens)
        """Who waits for a record of the status log."""
        self.assignment = Assignment()
        ledger = ledger or Ledger()
        self.restart_counts = ledger.restart_counts
        self.watched = ledger.watched
        self.live = False
        """Replay and report are complete: snapshots are published and the worker is told what to do."""
        self.told: set[Instance] = set()
        """Instances that the worker was told about and has not reported gone."""
        self.suspended: dict[ConnectorName, int] = {}
        """Connectors whose tasks are to stop until an assignment is made by these task configs, or newer ones."""
        self.statuses_owed: set[int] = set()
        """Tokens of status writes that are not answered yet."""
        self._published = published
        self._kind_of = kind_of
        self._snapshot = replace(published.latest, config=ClusterState(), status=StatusState())
        self._wanted: dict[ConnectorName, dict[Instance, Wanted]] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The state as of now, published unless a replay is under way."""
        return self._snapshot

    def update(self, **parts: Any) -> None:
        """Replace parts of the snapshot, and publish it."""
        number = self._published.latest.number + 1
        self._snapshot = replace(self._snapshot, number=number, **parts)
        if self.live:
            self._published.publish(self._snapshot)

    def skip(self, topic: str, records: Sequence[Skipped]) -> None:
        """Take note of records that cannot be applied."""
        if not records:
            return
        for record in records:
            log.error("the %s log has a record that is skipped: %s", topic, record)
        skipped = (*self._snapshot.skipped, *(f"{topic}@{r}" for r in records))
        self.update(skipped=skipped[-KEEP_SKIPPED:])

    def update_config(self, config: ClusterState, changed: Iterable[ConnectorName]) -> None:
        """Take over a new config state; `changed` names connectors whose class may be another now."""
        types = dict(self._snapshot.types)
        for name in changed:
            entry = config.connectors.get(name)
            if entry is None:
                types.pop(name, None)
            else:
                types[name] = self._kind_of(entry.config)
        self.update(config=config, types=types)

    def wanted(self, name: ConnectorName) -> Mapping[Instance, Wanted]:
        """Return what of a connector the worker was told to run."""
        return self._wanted.get(name, {})

    def write_config(self, entries: Sequence[Entry], reply: Reply[Any], then: Then) -> None:
        """Write to the config log; `then` runs when the records were read back, or `reply` fails."""
        token = self.waits.expect(reply, then)
        self.links.config_writer.tell(Append(token=token, entries=entries, reply_to=self.links.herder))

    def write_status(
        self, entries: Sequence[Entry], reply: Reply[None] | None = None, *, leased: bool = False
    ) -> None:
        """Write to the status log, trying until it is written; `reply`, if any, fails when the first try does.

        `leased`: written only with a lease.
        """
        if not entries:
            return
        token = self.status_waits.token() if reply is None else self.status_waits.expect(reply, _nothing)
        self.statuses_owed.add(token)
        append = Append(token=token, entries=entries, reply_to=self.links.herder, leased=leased)
        self.links.status_writer.tell(append)

    def apply_wanted(
        self, names: Iterable[ConnectorName], *, together: frozenset[Instance] = frozenset()
    ) -> None:
        """Tell the worker what of these connectors it is to run from now on.

        `together`: of these, none starts before all have stopped.
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
            self.told.update(delta)
            self.links.worker.tell(Assign(delta, together))

    def assign(self, assignment: Assignment) -> set[ConnectorName]:
        """Take over a new assignment; return the connectors of which something came or went."""
        before, self.assignment = self.assignment, assignment
        tasks = before.tasks ^ assignment.tasks
        return {t.connector for t in tasks} | (before.connectors ^ assignment.connectors)

    def adopt(self, running: Mapping[Instance, InstanceChanged]) -> None:
        """Take over what runs already, so that it is compared with what is wanted now: it is ours until we are told."""
        self.assignment = Assignment(
            connectors=frozenset(i for i in running if not isinstance(i, TaskId)),
            tasks=frozenset(i for i in running if isinstance(i, TaskId)),
        )
        for instance, fact in running.items():
            # The target is unknown: STOPPED differs from any a running instance can have, so it is told again.
            placeholder = Wanted(
                incarnation=fact.incarnation, target=TargetState.STOPPED, connector_config=_ADOPTED
            )
            self._wanted.setdefault(connector_of(instance), {})[instance] = placeholder
            self.told.add(instance)

    def tell_again(self, running: Mapping[Instance, InstanceChanged]) -> None:
        """Repeat all that is wanted: the worker may have died with a wish in its mailbox."""
        delta: dict[Instance, Wanted | None] = {i: None for i in running if i in self.told}
        for wanted in self._wanted.values():
            delta.update(wanted)
        self.links.worker.tell(Assign(delta))

    def told_names(self) -> set[ConnectorName]:
        """Return the connectors of which the worker may still run something."""
        return {connector_of(i) for i in self.told}

    def leaving(self) -> bool:
        """Whether something still runs that is not wanted here any more."""
        return any(i not in self.wanted(connector_of(i)) for i in self.told)

    def gone(self, instance: Instance) -> None:
        """The worker has stopped an instance; when it is not wanted again, it is out of our hands."""
        name = connector_of(instance)
        wanted = self._wanted.get(name, {})
        if instance in wanted and wanted[instance].connector_config is _ADOPTED:
            del wanted[instance]  # a former herder's wish: nobody starts it again
        if instance not in self.wanted(name):
            self.told.discard(instance)


def _nothing() -> None:
    """Whoever waits looks at what was read."""
