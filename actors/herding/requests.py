"""REST commands: the herder checks a command, writes records, and replies when the records have been read back.

The records are computed by `kraal.cluster.decisions.commands`. Part of the herder; runs on its thread only. As in
Connect, a POST or PUT of a config first checks the name, then the complete config (in the validator, off this thread),
then leadership; a POST finally checks that no connector of this name exists. Restarts first check that the connector
exists.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, assert_never

from actors.herding.creations import Creations
from actors.herding.offset_requests import OffsetRequests
from actors.herding.rebalances import STALE_CONFIG
from actors.herding.verification import Verifications
from actors.messages.claims import VerifyTask
from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    FenceZombies,
    PatchConfig,
    PutConfig,
    PutTaskConfigs,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SetLoggerLevel,
    SetTargetState,
)
from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowLags, ShowOffsets
from actors.messages.supervisor import Validate
from actors.runtime.mailbox import Reply
from kraal.cluster.decisions import commands
from kraal.cluster.decisions.restart import RestartRequest, plan_response, plan_restart, restart_entry
from kraal.core.errors import ActorDied, Forbidden, KraalError, NotFound, RetryableConflict
from kraal.core.ids import ConnectorName, Instance, TargetState, TaskId, get_connector
from kraal.plugins.validation.infos import raise_if_invalid
from kraal.protocol.records import ConnectorConfigRecord, encode

if TYPE_CHECKING:
    from actors.herding.fencing_rounds import FencingRounds
    from actors.herding.rebalances import Rebalances
    from actors.herding.restarts import Restarts
    from actors.herding.state import HerderState
    from actors.herding.statuses import StatusTracker
    from actors.herding.task_configs import TaskConfigs
    from actors.messages.herder import EndReached, InstanceChanged, Validated
    from kraal.core.ids import Config

log = logging.getLogger(__name__)

Command = (
    CreateConnector
    | PutConfig
    | PatchConfig
    | DeleteConnector
    | SetTargetState
    | RestartConnector
    | RestartTask
    | ResetTopics
    | PutTaskConfigs
    | FenceZombies
    | VerifyTask
    | SetLoggerLevel
    | ShowOffsets
    | ShowLags
    | AlterOffsets
    | ResetOffsets
)


class Requests:
    """Carries out REST commands."""

    def __init__(
        self,
        state: HerderState,
        rebalances: Rebalances,
        restarts: Restarts,
        statuses: StatusTracker,
        task_configs: TaskConfigs,
        fencings: FencingRounds,
    ) -> None:
        self._state = state
        self._rebalances = rebalances
        self._restarts = restarts
        self._statuses = statuses
        self._task_configs = task_configs
        self._fencings = fencings
        self.offsets = OffsetRequests(state, rebalances, fencings)
        self._creations = Creations(state, rebalances, self.offsets)
        self._verifications = Verifications(state)
        self._checks: dict[int, tuple[Reply[Any], Callable[[], None]]] = {}
        self._creation_callbacks: dict[ConnectorName, list[Callable[[], None]]] = {}
        """Functions that complete create requests in standalone mode when the connector has its tasks."""
        self._deferred: list[tuple[Command, Reply[Any]]] = []
        """Commands that wait for the end of a rebalance."""

    def command(self, message: Command, reply: Reply[Any]) -> None:
        """Start a command; `reply` receives its result or error."""
        try:
            match message:
                case CreateConnector():
                    self._create(message, reply)
                case PutConfig():
                    config = commands.add_name(message.name, message.config)
                    self._validate(config, reply, lambda: self._put(message.name, config, reply))
                case PatchConfig():
                    self._patch(message, reply)
                case DeleteConnector():
                    self._rebalances.check_leader()
                    if not self._defer_behind_write(message, reply):
                        entries = commands.delete(self._state.snapshot.config, message.name)
                        self._state.writes.write_config(entries, reply, lambda: reply.set(None))
                case SetTargetState():
                    if not self._defer_behind_write(message, reply):
                        self._set_target(message, reply)
                case RestartConnector():
                    self._restart(message, reply)
                case RestartTask():
                    self._restart_task(message, reply)
                case ResetTopics():
                    self._reset_topics(message.name, reply)
                case PutTaskConfigs():
                    self._task_configs.put(message, reply)
                case FenceZombies():
                    self._fencings.fence(message.name, reply)
                case VerifyTask():
                    self._verifications.verify(message, reply)
                case SetLoggerLevel():
                    self._set_logger(message, reply)
                case ShowOffsets() | ShowLags():
                    self.offsets.show(message, reply)
                case AlterOffsets() | ResetOffsets():
                    self.offsets.modify(message, reply)
                case _:
                    assert_never(message)
        except KraalError as error:
            log.debug("Rejected %s: %s", type(message).__name__, error)
            reply.fail(error)

    def retry_pending(self) -> None:
        """Retry commands that waited for the end of a rebalance."""
        due_commands, self._deferred = self._deferred, []
        for message, reply in due_commands:
            self.command(message, reply)
        self.offsets.deferred_requests.advance_due()
        self._creations.deferred_requests.advance_due()

    def fail_pending(self, error: KraalError) -> None:
        """Fail waiting commands at shutdown, when no more work is assigned."""
        deferred_commands, self._deferred = self._deferred, []
        for _, reply in deferred_commands:
            reply.fail(error)
        self.offsets.deferred_requests.fail_due(error)
        self._creations.deferred_requests.fail_due(error)

    # -- configs -------------------------------------------------------------------------------------------

    def _create(self, message: CreateConnector, reply: Reply[Any]) -> None:
        name = message.name
        config = commands.add_name(name, message.config)

        def write() -> None:
            self._rebalances.check_leader()
            self._creations.check(name)
            if self._defer_behind_write(message, reply):
                return
            if message.initial_offsets is not None:
                self._creations.begin(
                    message, config, reply, lambda text: self._complete_creation(name, reply, text)
                )
                return
            entries = commands.create(self._state.snapshot.config, name, config, message.initial_state)
            self._state.writes.write_config(entries, reply, lambda: self._complete_creation(name, reply))

        self._validate(config, reply, write)

    def _patch(self, message: PatchConfig, reply: Reply[Any]) -> None:
        """Merge a patch into the config; start again if another config has been written in the meantime."""
        state, name = self._state, message.name
        self._rebalances.check_leader()
        if self._defer_behind_write(message, reply):
            return
        config = commands.apply_patch(state.snapshot.config, name, message.patch)
        version = state.snapshot.config.connectors[name].version

        def write() -> None:
            entry = state.snapshot.config.connectors.get(name)
            if entry is None or entry.version != version:
                self.command(message, reply)
            elif not self._defer_behind_write(message, reply):
                self._put(name, config, reply)

        self._validate(config, reply, write)

    def _set_target(self, message: SetTargetState, reply: Reply[Any]) -> None:
        entries = commands.set_target(self._state.snapshot.config, message.name, message.target)
        is_stop = message.target is TargetState.STOPPED
        if is_stop:
            self._rebalances.check_leader()
        self._state.writes.write_config(entries, reply, lambda: reply.set(None), leased=is_stop)

    def _defer_behind_write(
        self, message: CreateConnector | PatchConfig | DeleteConnector | SetTargetState, reply: Reply[Any]
    ) -> bool:
        """Defer the command while a config or deletion of the connector is being written.

        Return whether the command was deferred.
        """
        key, _ = encode(ConnectorConfigRecord(message.name, None))
        if not self._state.writes.config.is_pending(key):
            return False
        self._state.writes.config.run_after(key, reply, lambda: self.command(message, reply))
        return True

    def _put(self, name: ConnectorName, config: Config, reply: Reply[Any]) -> None:
        self._rebalances.check_leader()
        self._creations.check(name)
        is_new = name not in self._state.snapshot.config.connectors
        entries = commands.put(name, config)
        self._state.writes.write_config(entries, reply, lambda: reply.set(is_new))

    def _validate(self, config: Config, reply: Reply[Any], then: Callable[[], None]) -> None:
        """Validate `config`, then call `then`, which writes or raises."""
        token = self._state.writes.next_token()
        self._checks[token] = (reply, then)
        self._state.actors.validator.tell(
            Validate(token=token, config=config, reply_to=self._state.actors.herder)
        )

    def on_validated(self, message: Validated) -> None:
        """Continue the request that waits for a validation."""
        check = self._checks.pop(message.token, None)
        if check is None:
            return
        reply, then = check
        try:
            if message.error is not None:
                raise message.error
            if message.infos is not None:
                raise_if_invalid(message.infos)
            then()
        except Exception as error:  # noqa: BLE001 - fails the request, not the herder
            reply.fail(error)

    def on_end_reached(self, message: EndReached) -> None:
        """Continue the request that waited until the config log was read to its end, or fail it if the read failed."""
        self.offsets.deferred_requests.on_end_reached(message)
        self._creations.deferred_requests.on_end_reached(message)
        self._verifications.on_end_reached(message)

    def on_reader_lost(self) -> None:
        """Resend pending requests to the config reader after a reader died."""
        self.offsets.deferred_requests.on_reader_lost()
        self._creations.deferred_requests.on_reader_lost()
        self._verifications.on_reader_lost()

    def on_validator_lost(self) -> None:
        """Fail all pending validations after the validator died, because the validator may not have run them."""
        checks, self._checks = self._checks, {}
        for reply, _ in checks.values():
            reply.fail(ActorDied("The validator died before it validated the config; try again"))

    def _complete_creation(self, name: ConnectorName, reply: Reply[Any], text: str | None = None) -> None:
        entry = self._state.snapshot.config.connectors.get(name)
        if self._state.settings.standalone and entry is not None and entry.target is TargetState.STARTED:
            self._creation_callbacks.setdefault(name, []).append(lambda: reply.set(text))
        else:
            reply.set(text)

    def on_settled(self, name: ConnectorName) -> None:
        """Complete pending create requests of a connector that has its tasks, needs none, failed or was removed."""
        for complete in self._creation_callbacks.pop(name, []):
            complete()

    # -- restarts ------------------------------------------------------------------------------------------

    def _restart(self, message: RestartConnector, reply: Reply[Any]) -> None:
        name = message.name
        commands.check_restart(self._state.snapshot.config, name)
        request = RestartRequest(
            name=name, include_tasks=message.include_tasks, only_failed=message.only_failed
        )
        if request.is_plain:
            self._restart_instance(message, name, reply, failure=f"Failed to start connector: {name}")
            return
        self._rebalances.check_leader()
        # By the time the record is read back, other workers may have restarted their failed instances.
        original_plan = plan_restart(request, self._state.snapshot.status)

        def on_planned() -> None:
            plan = plan_restart(request, self._state.snapshot.status)
            if plan is None:
                raise NotFound(f"Status for connector {name} not found")
            body = plan_response(original_plan or plan, self._state.snapshot.types.get(name, "unknown"))
            if self._state.settings.standalone:
                instances = plan.instances
                self._restarts.when_restarted(
                    instances,
                    lambda _: self._statuses.when_not_restarting(instances, lambda: reply.set(body)),
                )
            else:
                reply.set(body)

        self._state.writes.write_config([restart_entry(request)], reply, on_planned)

    def _restart_task(self, message: RestartTask, reply: Reply[Any]) -> None:
        task = message.task
        commands.check_restart_task(self._state.snapshot.config, task)
        self._restart_instance(message, task, reply, failure=f"Failed to start task: {task}")

    def _restart_instance(
        self, message: Command, instance: Instance, reply: Reply[Any], *, failure: str
    ) -> None:
        """Restart an instance of this worker at once; otherwise repeat the command after a pending rebalance.

        Raises NotOwner or NotLeader if no rebalance is pending and the instance is not assigned to this worker.
        """

        def on_started(failed_instances: list[Instance]) -> None:
            if failed_instances:
                reply.fail(KraalError(failure))
            else:
                reply.set(None)

        if self._restarts.restart_instance(instance, on_started):
            return
        if self._rebalances.is_reassigning(get_connector(instance)):
            self._deferred.append((message, reply))
            return
        self._rebalances.check_owner(instance)
        raise RetryableConflict(STALE_CONFIG)

    # -- loggers -------------------------------------------------------------------------------------------

    def _set_logger(self, message: SetLoggerLevel, reply: Reply[Any]) -> None:
        """Set the level at once in standalone mode; in a group, all workers set it when they read the record."""
        if self._state.settings.standalone:
            self._state.loggers.set_level(message.namespace, message.level)
            reply.set(None)
        else:
            entries = commands.set_logger(message.namespace, message.level)
            self._state.writes.write_config(entries, reply, lambda: reply.set(None), leased=False)

    # -- topics --------------------------------------------------------------------------------------------

    def _reset_topics(self, name: ConnectorName, reply: Reply[Any]) -> None:
        if not self._state.settings.topic_tracking:
            text = "Topic tracking is disabled."
            raise Forbidden(text)
        if not self._state.settings.topic_reset:
            text = "Topic tracking reset is disabled"
            raise Forbidden(text)
        self._statuses.reset_topics(name, reply)

    def on_instance_changed(self, fact: InstanceChanged) -> None:
        """Complete the create request of a connector that failed before it had tasks."""
        if not isinstance(fact.instance, TaskId) and not fact.stopped and fact.trace is not None:
            self.on_settled(fact.instance)
