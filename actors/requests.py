"""REST commands: check, decide with `kraal.cluster.commands`, write, answer when the record has come back.

Part of the herder; its thread only. Order of the checks as in Connect: the name, then the whole validation
(beside the herder, in the validator), then leadership, then whether the connector exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, assert_never

from actors.mailbox import Reply
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
from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowOffsets
from actors.messages.supervisor import Validate
from actors.offset_requests import OffsetRequests
from actors.rebalances import STALE
from actors.verifications import Verifications
from kraal.cluster import commands
from kraal.cluster.restart import RestartRequest, plan_response, restart_entry
from kraal.errors import ActorDied, Forbidden, KraalError, Momentary
from kraal.ids import ConnectorName, Instance, TargetState, TaskId
from kraal.plugins.infos import raise_if_invalid

if TYPE_CHECKING:
    from actors.fencings import Fencings
    from actors.herd import Herd
    from actors.messages.herder import InstanceChanged, Validated
    from actors.rebalances import Rebalances
    from actors.restarts import Restarts
    from actors.statuses import StatusBook
    from actors.task_configs import TaskConfigs
    from kraal.ids import Config

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
    | AlterOffsets
    | ResetOffsets
)


class Requests:
    """Carries REST commands out."""

    def __init__(
        self,
        herd: Herd,
        rebalances: Rebalances,
        restarts: Restarts,
        book: StatusBook,
        task_configs: TaskConfigs,
        fencings: Fencings,
    ) -> None:
        self._herd = herd
        self._group = rebalances
        self._restarts = restarts
        self._book = book
        self._task_configs = task_configs
        self._fencings = fencings
        self.offsets = OffsetRequests(herd, rebalances, fencings)
        self.verifications = Verifications(herd)
        self._checks: dict[int, tuple[Reply[Any], Callable[[], None]]] = {}
        self._created: dict[ConnectorName, list[Reply[Any]]] = {}
        """Standalone: creations that are answered when the connector's tasks are known."""

    def command(self, message: Command, reply: Reply[Any]) -> None:
        """Begin one command, which `reply` answers, errors too."""
        try:
            self._begin(message, reply)
        except KraalError as error:
            reply.fail(error)

    def _begin(self, message: Command, reply: Reply[Any]) -> None:
        match message:
            case CreateConnector():
                self._create(message, reply)
            case PutConfig():
                config = commands.named(message.name, message.config)
                self._checked(config, reply, lambda: self._put(message.name, config, reply))
            case PatchConfig():
                self._group.lead()
                config = commands.patched(self._herd.snapshot.config, message.name, message.patch)
                self._checked(config, reply, lambda: self._put(message.name, config, reply))
            case DeleteConnector():
                self._group.lead()
                entries = commands.delete(self._herd.snapshot.config, message.name)
                self._herd.write_config(entries, reply, lambda: reply.set(None))
            case SetTargetState():
                entries = commands.set_target(self._herd.snapshot.config, message.name, message.target)
                if message.target is TargetState.STOPPED:
                    self._group.lead()
                self._herd.write_config(entries, reply, lambda: reply.set(None))
            case RestartConnector():
                self._restart(message, reply)
            case RestartTask():
                self._restart_task(message.task, reply)
            case ResetTopics():
                self._reset_topics(message.name, reply)
            case PutTaskConfigs():
                self._task_configs.put(message, reply)
            case FenceZombies():
                self._fencings.fence(message.name, reply)
            case VerifyTask():
                self.verifications.verify(message, reply)
            case SetLoggerLevel():
                self._set_logger(message, reply)
            case ShowOffsets():
                self.offsets.show(message, reply)
            case AlterOffsets() | ResetOffsets():
                self.offsets.modify(message, reply)
            case _:
                assert_never(message)

    # -- configs -------------------------------------------------------------------------------------------

    def _create(self, message: CreateConnector, reply: Reply[Any]) -> None:
        name = message.name
        config = commands.named(name, message.config)

        def write() -> None:
            self._group.lead()
            entries = commands.create(self._herd.snapshot.config, name, config, message.initial_state)
            self._herd.write_config(entries, reply, lambda: self._created_now(name, reply))

        self._checked(config, reply, write)

    def _put(self, name: ConnectorName, config: Config, reply: Reply[Any]) -> None:
        self._group.lead()
        created = name not in self._herd.snapshot.config.connectors
        entries = commands.put(name, config)
        self._herd.write_config(entries, reply, lambda: reply.set(created))

    def _checked(self, config: Config, reply: Reply[Any], then: Callable[[], None]) -> None:
        """Have `config` validated; `then` writes, or raises."""
        token = self._herd.waits.token()
        self._checks[token] = (reply, then)
        self._herd.links.validator.tell(
            Validate(token=token, config=config, reply_to=self._herd.links.herder)
        )

    def validated(self, message: Validated) -> None:
        """A validation is done: go on with its request."""
        found = self._checks.pop(message.token, None)
        if found is None:
            return
        reply, then = found
        try:
            if message.error is not None:
                raise message.error
            if message.infos is not None:
                raise_if_invalid(message.infos)
            then()
        except Exception as error:  # noqa: BLE001 - its request's answer, not the herder's death
            reply.fail(error)

    def lose_checks(self) -> None:
        """The validator died: checks that it had not begun will not be answered."""
        checks, self._checks = self._checks, {}
        for reply, _ in checks.values():
            reply.fail(ActorDied("the validator died before it checked the config; try again"))

    def _created_now(self, name: ConnectorName, reply: Reply[Any]) -> None:
        entry = self._herd.snapshot.config.connectors.get(name)
        if self._herd.settings.standalone and entry is not None and entry.target is TargetState.STARTED:
            self._created.setdefault(name, []).append(reply)
        else:
            reply.set(None)

    def settled(self, name: ConnectorName) -> None:
        """The connector has its tasks, failed, or is gone: who waited for its creation is answered."""
        for reply in self._created.pop(name, []):
            reply.set(None)

    # -- restarts ------------------------------------------------------------------------------------------

    def _restart(self, message: RestartConnector, reply: Reply[Any]) -> None:
        name = message.name
        self._group.fresh()
        commands.check_restart(self._herd.snapshot.config, name)
        request = RestartRequest(
            name=name, include_tasks=message.include_tasks, only_failed=message.only_failed
        )
        if request.plain:
            self._restart_plainly(name, reply, failure=f"Failed to start connector: {name}")
            return
        self._group.lead()
        # When the record has come back, other workers may have restarted theirs already, and failures be cured.
        original = self._restarts.plan_if_known(request)

        def planned() -> None:
            plan = self._restarts.plan(request)
            body = plan_response(original or plan, self._herd.snapshot.types.get(name, "unknown"))
            if self._herd.settings.standalone:
                instances = plan.instances
                self._restarts.when_restarted(
                    instances, lambda _: self._book.when_shown(instances, lambda: reply.set(body))
                )
            else:
                reply.set(body)

        self._herd.write_config([restart_entry(request)], reply, planned)

    def _restart_task(self, task: TaskId, reply: Reply[Any]) -> None:
        self._group.fresh()
        commands.check_restart_task(self._herd.snapshot.config, task)
        self._restart_plainly(task, reply, failure=f"Failed to start task: {task}")

    def _restart_plainly(self, instance: Instance, reply: Reply[Any], *, failure: str) -> None:
        def up(failed: list[Instance]) -> None:
            if failed:
                reply.fail(KraalError(failure))
            else:
                reply.set(None)

        self._group.owner(instance)
        if not self._restarts.restart_plainly(instance, up):
            raise Momentary(STALE)

    # -- loggers -------------------------------------------------------------------------------------------

    def _set_logger(self, message: SetLoggerLevel, reply: Reply[Any]) -> None:
        """A standalone worker is the whole cluster; in a group all change it when they read it."""
        if self._herd.settings.standalone:
            self._herd.loggers.set_level(message.namespace, message.level)
            reply.set(None)
        else:
            entries = commands.set_logger(message.namespace, message.level)
            self._herd.write_config(entries, reply, lambda: reply.set(None))

    # -- topics --------------------------------------------------------------------------------------------

    def _reset_topics(self, name: ConnectorName, reply: Reply[Any]) -> None:
        if not self._herd.settings.topic_tracking:
            text = "Topic tracking is disabled."
            raise Forbidden(text)
        if not self._herd.settings.topic_reset:
            text = "Topic tracking reset is disabled"
            raise Forbidden(text)
        self._book.reset_topics(name, reply)

    def heard(self, fact: InstanceChanged) -> None:
        """A connector failed before it had tasks: its creation is answered all the same."""
        if not isinstance(fact.instance, TaskId) and not fact.stopped and fact.trace is not None:
            self.settled(fact.instance)
