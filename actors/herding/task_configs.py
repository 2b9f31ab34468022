"""Publication of task configs from a running connector to the config log, through the leader.

Part of the herder; runs on its thread only. Only the leader writes task configs. The other workers send the task
configs of their connectors to the leader, and retry until the leader has written them or they are obsolete. Only one
set per connector is in flight at a time, so an older set never overtakes a newer one.
Source: DistributedHerder.reconfigureConnectorTasksWithExponentialBackoffRetries, putTaskConfigs (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from actors.messages.publisher import PublishFailed, PublishTasks, TasksPublished
from actors.runtime.mailbox import Reply
from kraal.cluster.decisions.commands import submitted_task_configs
from kraal.cluster.decisions.task_configs import (
    is_session_key_lag,
    publish_retry_s,
    should_publish,
    task_config_entries,
)
from kraal.core.ids import TargetState

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.herding.rebalances import Rebalances
    from actors.herding.state import HerderState
    from actors.messages.herder import PutTaskConfigs, TaskConfigsGenerated
    from kraal.core.ids import ConnectorName

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class _Publication:
    """Publication of one set of task configs."""

    task_configs: TaskConfigsGenerated
    since_s: float
    attempt: int = 0
    token: int | None = None
    """Token of the request to the leader; None while this worker writes the configs itself, or before a retry."""
    is_sent: bool = False
    """Whether the configs were sent or written, and the response is pending."""
    newer_configs: TaskConfigsGenerated | None = None
    """Newer configs that the connector generated meanwhile."""


class TaskConfigs:
    """Publishes the task configs of this worker's connectors and, as leader, of other workers' connectors."""

    def __init__(
        self, state: HerderState, rebalances: Rebalances, on_settled: Callable[[ConnectorName], None]
    ) -> None:
        """`on_settled` is called with a connector whose tasks are up to date or that failed to generate configs."""
        self._state = state
        self._rebalances = rebalances
        self._on_settled = on_settled
        self._renewed_configs = state.restart_history.renewed_configs
        self._publications: dict[ConnectorName, _Publication] = {}
        self._latest: dict[ConnectorName, TaskConfigsGenerated] = {}
        """The latest task configs that each connector on this worker has generated."""

    def on_generated(self, message: TaskConfigsGenerated) -> None:
        """Publish the task configs of a connector on this worker if they differ from the stored ones."""
        if message.failed:
            self._on_settled(message.name)
            return
        if self._renewed_configs.get(message.name) is message:  # repeated by the worker
            message = replace(message, renewed=False)
        current = self._publications.get(message.name)
        if current is not None and current.task_configs is message and current.is_sent:
            return
        if current is None or current.task_configs is not message:
            self._latest[message.name] = message
        if current is not None and current.task_configs is not message:
            current.newer_configs = message
            return
        entry = self._state.snapshot.config.connectors.get(message.name)
        wanted_instance = self._state.work.wanted_instances(message.name).get(message.name)
        is_current = wanted_instance is not None and wanted_instance.incarnation == message.incarnation
        if entry is None or entry.target is not TargetState.STARTED or not is_current:
            log.debug("Skipped the task configs of %s, which does not run", message.name)
            self._finish(message.name)  # a paused connector generates its configs again when it is resumed
        elif not (message.renewed or should_publish(entry, message.configs)):
            log.debug("Skipped the task configs of %s, which are unchanged", message.name)
            self._on_settled(message.name)
            self._finish(message.name)
        else:
            if current is None:
                current = _Publication(task_configs=message, since_s=self._state.clock.now())
                self._publications[message.name] = current
                log.info("Publishing the configs of %d tasks of %s", len(message.configs), message.name)
            self._publish(current)

    def recheck(self, name: ConnectorName) -> None:
        """Check the latest configs again after a change of tasks or target, because the connector does not resend them.

        A connector that was stopped and resumed while this worker did not read the log kept running, but its tasks
        were removed. While an earlier publication is pending, the check waits for its completion.
        """
        latest, current = self._latest.get(name), self._publications.get(name)
        if latest is None or not self._state.lease():
            return
        if current is None:
            self.on_generated(latest)
        elif current.newer_configs is None:
            current.newer_configs = replace(latest, renewed=False)

    def _publish(self, publication: _Publication) -> None:
        state, task_configs = self._state, publication.task_configs
        leader_url = state.snapshot.leader_url
        publication.is_sent = True
        if state.snapshot.is_leader:
            reply: Reply[None] = Reply()
            state.writes.write_config(
                task_config_entries(task_configs.name, task_configs.configs), reply, lambda: reply.set(None)
            )
            reply.future.add_done_callback(lambda f: self._on_written(publication, f.exception()))
        elif leader_url is None:
            self._retry(publication, "the group has no known leader", None)
        else:
            key = state.snapshot.config.session_key
            is_signed = state.snapshot.protocol is not None and state.snapshot.protocol.is_signed
            publication.token = state.writes.next_token()
            state.actors.publisher.tell(
                PublishTasks(
                    name=task_configs.name,
                    configs=task_configs.configs,
                    leader_url=leader_url,
                    key=key.key if is_signed and key is not None else None,
                    algorithm=state.settings.signature_algorithm,
                    reply_to=state.actors.herder,
                    token=publication.token,
                )
            )

    def on_publish_result(self, message: TasksPublished | PublishFailed) -> None:
        """Handle the leader's response, or a failed request."""
        for publication in self._publications.values():
            if publication.token == message.token:
                publication.token = None
                if isinstance(message, PublishFailed):
                    self._retry(publication, str(message.error), message.status)
                else:
                    self._on_published(publication)
                return

    def on_publisher_lost(self) -> None:
        """Retry all sent requests after the publisher died; their results are unknown."""
        for publication in list(self._publications.values()):
            if publication.token is not None:
                publication.token = None
                self._retry(publication, "the publisher died", None)

    def _on_written(self, publication: _Publication, error: BaseException | None) -> None:
        if error is None:
            self._on_published(publication)
        else:
            self._retry(publication, str(error), None)

    def _on_published(self, publication: _Publication) -> None:
        task_configs = publication.task_configs
        if task_configs.renewed:
            self._renewed_configs[task_configs.name] = task_configs
        self._finish(task_configs.name)

    def _retry(self, publication: _Publication, reason: str, status: int | None) -> None:
        state, task_configs = self._state, publication.task_configs
        publication.is_sent = False
        delay_s = publish_retry_s(publication.attempt)
        publication.attempt += 1
        is_key_lag = is_session_key_lag(status, state.clock.now() - publication.since_s)
        level = logging.DEBUG if is_key_lag else logging.ERROR
        log.log(
            level,
            "Failed to publish the task configs of %s, retrying in %g s: %s",
            task_configs.name,
            delay_s,
            reason,
        )
        state.clock.after(delay_s, state.actors.herder, task_configs)

    def _finish(self, name: ConnectorName) -> None:
        """Remove a publication that is complete or obsolete, and publish the connector's newer configs."""
        publication = self._publications.pop(name, None)
        if publication is not None and publication.newer_configs is not None:
            self.on_generated(publication.newer_configs)

    def remove_stopped_tasks(self) -> None:
        """As leader, remove the tasks of STOPPED connectors whose task configs were written after the stop."""
        state = self._state
        if not state.snapshot.is_leader:
            return
        for entry in state.snapshot.config.connectors.values():
            if entry.target is TargetState.STOPPED and entry.task_count:
                state.writes.write_config(task_config_entries(entry.name, []), Reply(), _do_nothing)

    # -- configs sent by other workers ---------------------------------------------------------------------

    def put(self, message: PutTaskConfigs, reply: Reply[Any]) -> None:
        """Write the task configs that a connector's owner sent. Raises NotLeader, NotFound, BadRequest."""
        self._rebalances.check_leader()
        entries = submitted_task_configs(self._state.snapshot.config, message.name, message.configs)
        self._state.writes.write_config(entries, reply, lambda: reply.set(None))


def _do_nothing() -> None:
    """No-op: the records are processed when they are read."""
