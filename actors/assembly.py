"""Assembly of the actors of one worker, for a process or for a test.

The parts that differ between a process and a test are passed in as `Parts`: the actor system, clock, engine, logs and
plugins.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from actors.connector import Connector
from actors.exactly_once import claims
from actors.exactly_once.fencer import Fencer
from actors.herder import Herder
from actors.herding.history import History
from actors.herding.state import ActorReferences, HerderState, RestartHistory
from actors.herding.task_config_publisher import Publisher
from actors.herding.validator import Validator
from actors.instances.read_permission import ReadPermission
from actors.ledger.keeper import LedgerKeeper
from actors.logs.reader import Reader
from actors.logs.writer import Writer
from actors.membership.member import ClusterMembership, GroupMember
from actors.membership.single_node import SingleNode
from actors.membership.state import MembershipState
from actors.messages.herder import ActorRestarted
from actors.messages.supervisor import Supervise, do_nothing
from actors.offsets.request import RequestContext
from actors.offsets.service import OffsetService
from actors.offsets.store import OffsetKeeper
from actors.parts import ClusterParts, Parts
from actors.runtime.mailbox import Address, Behaviour
from actors.supervisor import Supervisor
from actors.task import Task
from actors.worker import Slot, Worker
from kraal.cluster.views.snapshot import Published, Snapshot, Stage
from kraal.config.connector.trimmed import trim_config
from kraal.core.ids import Instance, TaskId, TopicName
from kraal.engine.api import TaskSpec
from kraal.journal.events import EventKind
from kraal.journal.journal import Journal
from kraal.metrics.delivery import DeliveryMetrics
from kraal.metrics.registry import MetricsRegistry
from kraal.metrics.series import Series
from kraal.metrics.table_reports import TableReport, find_new_changes

if TYPE_CHECKING:
    from actors.membership.api import Membership
    from actors.runtime.system import Factory
    from kraal.cluster.state.wanted_work import WantedInstance
    from kraal.core.ids import Config


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """A running worker: addresses for messages, and published state."""

    herder: Address
    worker: Address
    supervisor: Address
    published: Published
    metrics: MetricsRegistry
    """Metrics of this worker."""
    journal: Journal
    """Event journal of this worker."""
    series: Series
    """Recent metrics of this worker's tasks, sampled by a `Sampler`."""
    ledger: Address | None
    """The keeper of the ledger; None without a ledger."""
    delivery: DeliveryMetrics
    """What this worker's tasks have delivered; empty without a ledger."""


def assemble(parts: Parts, on_budget_exhausted: Callable[[str, BaseException], None]) -> Assembly:
    """Start the actors of one worker.

    `on_budget_exhausted` is called with an actor's name and last error when the actor's restart budget is exhausted.
    The callback must shut down the process.
    """
    actor_factory = _ActorFactory(parts)
    supervisor = actor_factory.supervisor
    parts.system.spawn(
        supervisor,
        lambda: Supervisor(address=supervisor, system=parts.system, clock=parts.clock, budget=parts.budget),
        lambda error: on_budget_exhausted("supervisor", error),
    )
    # The recipients of an actor's messages must exist when the actor starts.
    for address, factory in actor_factory.factories().items():
        actor_factory.supervise(address, factory, on_budget_exhausted)
    return Assembly(
        herder=actor_factory.actors.herder,
        worker=actor_factory.actors.worker,
        supervisor=supervisor,
        published=actor_factory.published,
        metrics=actor_factory.metrics,
        journal=actor_factory.journal,
        series=actor_factory.series,
        ledger=actor_factory.ledger,
        delivery=actor_factory.delivery,
    )


def unconditional_lease() -> bool:
    """Return True, because a worker without a group always has its lease."""
    return True


class _ActorFactory:
    """Creates the behaviour of an actor whenever the actor starts, and holds the state that outlives the actors."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.supervisor = Address("supervisor")
        self.actors = ActorReferences(
            herder=Address("herder"),
            worker=Address("worker"),
            validator=Address("validator"),
            config_writer=Address("config writer"),
            config_reader=Address("config reader"),
            status_writer=Address("status writer"),
            status_reader=Address("status reader"),
            publisher=Address("publisher"),
            fencer=Address("fencer"),
            offset_service=Address("offset service"),
            ledger=None if parts.ledger_log is None else Address("ledger"),
        )
        self.offsets = Address("offsets")
        self.claims = Address("claims")
        self.ledger = self.actors.ledger
        self.delivery = DeliveryMetrics()
        self._pending_claims: dict[int, Address] = {}
        stage = Stage(
            what="initializing and reading to the end of internal topics", began_ms=parts.clock.wall_ms()
        )
        self.published = Published(
            Snapshot(worker_id=parts.settings.worker_id, stage=stage, started_up=not parts.creates_connectors)
        )
        self.metrics = MetricsRegistry(
            parts.clock,
            parts.windows,
            in_group=parts.cluster is not None,
            stall_timeout_s=parts.stall_timeout_s,
        )
        self.journal = Journal(parts.clock.wall_ms, parts.history_max_bytes)
        self.series = Series(self.metrics)
        self.membership_state = None if parts.cluster is None else self._make_membership_state(parts.cluster)
        self._slots: dict[Instance, Slot] = {}
        self._restart_history = RestartHistory()
        self._tokens = itertools.count(1)

    def supervise(
        self, address: Address, factory: Factory, on_budget_exhausted: Callable[[str, BaseException], None]
    ) -> None:
        """Start the actor at `address` under the supervisor."""
        herder, worker, state = self.actors.herder, self.actors.worker, self.membership_state
        # These actors request missed messages themselves.
        self_recovering_actors = (herder, worker, None if state is None else state.address)
        notifies_herder = address not in self_recovering_actors
        self.supervisor.tell(
            Supervise(
                address=address,
                factory=factory,
                on_budget_exhausted=(
                    _report_lost_ledger
                    if address is self.ledger
                    else lambda error: on_budget_exhausted(address.name, error)
                ),
                on_restart=(lambda: herder.tell(ActorRestarted(address))) if notifies_herder else do_nothing,
            )
        )

    def factories(self) -> dict[Address, Factory]:
        """Return all actor factories in startup order."""
        actors = self.actors
        return {
            **self._cluster_factories(),
            **self._ledger_factories(),
            actors.config_writer: lambda: self._make_writer(actors.config_writer, retries=False),
            actors.status_writer: lambda: self._make_writer(actors.status_writer, retries=True),
            actors.config_reader: lambda: self._make_reader(actors.config_reader),
            actors.status_reader: lambda: self._make_reader(actors.status_reader),
            actors.validator: self._make_validator,
            self.offsets: self._make_offset_keeper,
            actors.offset_service: self._make_offset_service,
            actors.worker: self._make_worker,
            actors.herder: self._make_herder,
        }

    def _make_membership_state(self, cluster: ClusterParts) -> MembershipState:
        return MembershipState(
            address=Address("membership"),
            published=self.published,
            clock=self._parts.clock,
            group=cluster.group,
            protocol=cluster.protocol,
            url=self._parts.leader_url,
            settings=cluster.member,
            config_wait_timeout_s=cluster.config_wait_timeout_s,
            ready=self._is_engine_ready,
            metrics=self.metrics,
            static_assignment=cluster.static_assignment,
        )

    def _is_engine_ready(self) -> bool:
        """Start the engine for the group's connectors; return whether the engine is ready."""
        connectors = self.published.latest.config.connectors.values()
        return self._parts.engine.is_ready_for(connector.config for connector in connectors)

    def _cluster_factories(self) -> dict[Address, Factory]:
        parts, cluster, state = self._parts, self._parts.cluster, self.membership_state
        if cluster is None or state is None:
            return {}
        publisher, fencer, herder = self.actors.publisher, self.actors.fencer, self.actors.herder
        transactions = cluster.transactions
        return {
            **(
                {}
                if transactions is None
                else {self.claims: lambda: self._make_claims(cluster, transactions)}
            ),
            fencer: lambda: Fencer(system=parts.system, fence=cluster.fence),
            state.address: lambda: GroupMember(membership_state=state, herder=herder, clock=parts.clock),
            publisher: lambda: Publisher(address=publisher, system=parts.system, send=cluster.send),
        }

    def _ledger_factories(self) -> dict[Address, Factory]:
        address, ledger_log, clock = self.ledger, self._parts.ledger_log, self._parts.clock
        if address is None or ledger_log is None:
            return {}
        return {
            address: lambda: LedgerKeeper(
                address=address,
                ledger_log=ledger_log,
                clock=clock,
                metrics=self.delivery,
                keeps_config_offsets=self._parts.keeps_configs,
            )
        }

    def _make_claims(self, cluster: ClusterParts, transactions: claims.SourceTransactions) -> claims.Claims:
        context = claims.ClaimContext(
            clock=self._parts.clock,
            herder=self.actors.herder,
            published=self.published,
            transactions=transactions,
            send=cluster.send_fence,
            algorithm=self._parts.settings.signature_algorithm,
            resolve=self._resolve_config,
            tracks=self._parts.plugins.tracks_offsets,
        )
        return claims.Claims(system=self._parts.system, context=context, pending=self._pending_claims)

    def _resolve_config(self, config: Config) -> dict[str, str]:
        return trim_config(self._parts.plugins.resolve(config).config)

    def _make_writer(self, address: Address, *, retries: bool) -> Writer:
        parts, actors = self._parts, self.actors
        is_config = address is actors.config_writer
        return Writer(
            address=address,
            clock=parts.clock,
            target=parts.config_log if is_config else parts.status_log,
            reader=actors.config_reader if is_config else actors.status_reader,
            retries=retries,
            lease=self._lease(),
        )

    def _make_reader(self, address: Address) -> Reader:
        parts, actors = self._parts, self.actors
        is_config = address is actors.config_reader
        return Reader(
            address=address,
            clock=parts.clock,
            source=parts.config_log if is_config else parts.status_log,
            topic="config" if is_config else "status",
            herder=actors.herder,
            follow=None if parts.cluster is None else parts.cluster.follow,
        )

    def _make_validator(self) -> Validator:
        return Validator(system=self._parts.system, check=self._parts.plugins.check)

    def _make_offset_keeper(self) -> OffsetKeeper:
        parts = self._parts
        return OffsetKeeper(
            address=self.offsets,
            store=parts.offsets,
            clock=parts.clock,
            write_interval_s=parts.offset_write_interval_s,
        )

    def _make_offset_service(self) -> OffsetService:
        context = RequestContext(
            clock=self._parts.clock,
            keeper=self.offsets,
            groups=self._parts.group_offsets,
            make_plugin=self._parts.plugins.make,
            resolve=lambda config: trim_config(self._parts.plugins.resolve_with_timeout(config).config),
            transactions=None if self._parts.cluster is None else self._parts.cluster.transactions,
        )
        return OffsetService(address=self.actors.offset_service, system=self._parts.system, context=context)

    def _make_worker(self) -> Worker:
        return Worker(
            address=self.actors.worker,
            herder=self.actors.herder,
            supervisor=self.supervisor,
            clock=self._parts.clock,
            make_child=self._make_child,
            slots=self._slots,
            abandon=self._parts.engine.abandon,
            graceful_s=self._parts.graceful_s,
            metrics=self.metrics,
        )

    def _make_herder(self) -> Herder:
        parts, actors = self._parts, self.actors
        state = HerderState(
            actors=actors,
            settings=parts.settings,
            clock=parts.clock,
            published=self.published,
            connector_type=parts.plugins.connector_type,
            tokens=self._tokens,
            lease=self._lease(),
            waiting_reason=parts.engine.waiting_reason,
            restart_history=self._restart_history,
            refuse=None if parts.cluster is None else parts.cluster.refuse,
            loggers=parts.loggers,
            history=History(
                self.journal, worker_id=parts.settings.worker_id, standalone=parts.settings.standalone
            ),
        )
        membership: Membership
        if self.membership_state is None:
            membership = SingleNode(
                herder=actors.herder, published=self.published, leader_url=parts.leader_url
            )
        else:
            membership = ClusterMembership(self.membership_state)
        return Herder(state=state, membership=membership)

    def _lease(self) -> Callable[[], bool]:
        return unconditional_lease if self.membership_state is None else self.membership_state.lease

    def _make_child(self, instance: Instance, wanted: WantedInstance, address: Address) -> Behaviour:
        if isinstance(instance, TaskId):
            return self._make_task(instance, wanted, address)
        return Connector(
            name=instance,
            wanted=wanted,
            resolve=self._parts.plugins.resolve,
            make_plugin=self._parts.plugins.make,
            address=address,
            worker=self.actors.worker,
            clock=self._parts.clock,
        )

    def _make_task(self, task: TaskId, wanted: WantedInstance, address: Address) -> Task:
        parts = self._parts
        tracking = parts.settings.topic_tracking
        spec = TaskSpec(
            task=task,
            task_config=_drop_null_values(wanted.task_config or {}),
            connector_config=_drop_null_values(wanted.connector_config),
            lease=self._lease(),
            may_read=ReadPermission(task, wanted.incarnation.version, self.published, parts.clock),
            assigned=partial(self.metrics.record_partitions, task),
            backlog=partial(self.metrics.record_backlog, task),
            ends=partial(self.metrics.record_ends, task),
            report_table=partial(_record_table, self.metrics, self.journal, task),
            working=self.metrics.track(task),
            counts_records=self.ledger is not None,
        )
        kind = parts.plugins.connector_type(wanted.connector_config)
        is_source = kind != "sink"
        is_exactly_once = (
            kind == "source" and parts.cluster is not None and parts.cluster.transactions is not None
        )

        def known_topics() -> frozenset[TopicName] | None:
            topics = self.published.latest.status.topics
            return topics.get(task.connector, frozenset()) if tracking else None

        return Task(
            spec=spec,
            incarnation=wanted.incarnation,
            target=wanted.target,
            is_source=is_source,
            version=parts.plugins.connector_version(wanted.connector_config),
            known_topics=known_topics,
            address=address,
            worker=self.actors.worker,
            offsets=self.offsets,
            claims=self.claims if is_exactly_once else None,
            ledger=self.ledger,
            engine=parts.engine,
            resolve=parts.plugins.resolve,
            clock=parts.clock,
            meter=parts.meter(
                task,
                is_source=is_source,
                time=parts.clock,
                windows=parts.windows,
                publish=self.metrics.publish,
            ),
        )


def _record_table(metrics: MetricsRegistry, journal: Journal, task: TaskId, report: TableReport) -> None:
    """Publish a report of a task, and record new changes of the table's schema as events. Called on any thread."""
    before = metrics.record_table(task, report)
    for change in () if before is None else find_new_changes(before, report):
        journal.record_event(EventKind.SCHEMA, f"{report.table}: {change}", task)


def _report_lost_ledger(error: BaseException) -> None:
    """Report that the ledger's keeper has ended; delivery continues without it."""
    log.error(
        "The ledger has failed repeatedly and counts no more records until the worker is restarted: %r", error
    )


def _drop_null_values(config: Config) -> dict[str, str]:
    return {key: value for key, value in config.items() if value is not None}
