"""Creation of connectors with initial offsets (KIP-995). Part of the herder; runs on its thread only.

The config has been validated when a creation arrives here. The steps are:

1. Read the config log to its end, and wait for a rebalance that is due or in progress, because this rebalance may stop
   the tasks of a deleted connector of the same name.
2. Fence exactly-once tasks that may still run.
3. Let the plugin validate the offsets, and replace all offsets stored under the name.
4. Write the config. No task ever starts without the offsets.

If the config was not written, the previous offsets are restored before the response is sent. After an error,
the config log shows whether the config was written. A leader that dies in between, or cannot read the config log,
leaves the new offsets in place; the next creation with initial offsets replaces them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.herding.settled_requests import DeferredRequests
from actors.runtime.mailbox import Reply
from kraal.cluster.decisions import commands
from kraal.core.errors import KraalError, RetryableConflict

if TYPE_CHECKING:
    from actors.herding.offset_requests import OffsetRequests
    from actors.herding.rebalances import Rebalances
    from actors.herding.state import HerderState
    from actors.messages.herder import CreateConnector
    from actors.messages.offsets import OffsetsModified
    from kraal.core.ids import Config, ConnectorName

log = logging.getLogger(__name__)

CREATION_IN_PROGRESS = (
    "Cannot complete request momentarily because connector {} is being created with initial offsets"
)


@dataclass(slots=True)
class _Creation:
    message: CreateConnector
    config: Config
    """Config that includes the connector's name."""
    kind: str
    reply: Reply[Any]
    on_created: Callable[[str], None]
    """Called when the config is written, with a message about the offsets."""
    is_fenced: bool = False
    """Whether earlier tasks can no longer write."""
    failed_write: tuple[OffsetsModified, Exception] | None = None
    """The modified offsets and the error of the config write; None unless the config write has failed."""


class Creations:
    """Pending creations with initial offsets, at most one per name."""

    def __init__(self, state: HerderState, rebalances: Rebalances, offsets: OffsetRequests) -> None:
        self._state = state
        self._rebalances = rebalances
        self._offsets = offsets
        self.deferred_requests = DeferredRequests(state, self._advance, self._fail)
        self._names: set[ConnectorName] = set()
        """Connectors that are being created, even if the client no longer waits for the response."""

    def check(self, name: ConnectorName) -> None:
        """Raise RetryableConflict while the connector is being created, so that no other write interferes."""
        if name in self._names:
            raise RetryableConflict(CREATION_IN_PROGRESS.format(name))

    def begin(
        self, message: CreateConnector, config: Config, reply: Reply[Any], on_created: Callable[[str], None]
    ) -> None:
        """Create a connector with a valid config. Raises NotLeader, RetryableConflict, AlreadyExists, BadRequest."""
        name = message.name
        self._rebalances.check_leader()
        self.check(name)
        commands.create(self._state.snapshot.config, name, config, message.initial_state)
        self._names.add(name)
        kind = self._state.connector_type(config)
        self.deferred_requests.add(_Creation(message, config, kind, reply, on_created))

    def _fail(self, creation: _Creation, error: Exception) -> None:
        self._names.discard(creation.message.name)
        creation.reply.fail(error if creation.failed_write is None else creation.failed_write[1])

    def _advance(self, creation: _Creation) -> None:
        name = creation.message.name
        if creation.failed_write is not None:
            self._restore_unless_written(creation, *creation.failed_write)
            return
        self._rebalances.check_leader()
        commands.check_absent(self._state.snapshot.config, name)
        if self._rebalances.may_run_removed_tasks:
            self.deferred_requests.wait(creation)
            return
        if creation.kind == "source" and self._state.settings.transactional and not creation.is_fenced:
            self._fence(creation)
            return
        pairs = creation.message.initial_offsets or ()
        replacement = self._offsets.replace(name, creation.kind, creation.config, pairs)

        def on_replaced() -> None:
            error = replacement.future.exception()
            if error is None:
                self._write(creation, replacement.future.result())
            else:
                self._fail(creation, _as_exception(error))

        replacement.future.add_done_callback(lambda _: on_replaced())

    def _fence(self, creation: _Creation) -> None:
        def advance() -> None:
            creation.is_fenced = True
            self.deferred_requests.advance(creation)

        self._offsets.fence_previous_tasks(
            creation.message.name, advance, lambda error: self._fail(creation, error)
        )

    def _write(self, creation: _Creation, modified_offsets: OffsetsModified) -> None:
        """Write the config; restore the previous offsets if the write fails."""
        message, reply = creation.message, Reply[None]()
        try:
            self._rebalances.check_leader()
            state = self._state.snapshot.config
            entries = commands.create(state, message.name, creation.config, message.initial_state)
        except KraalError as error:
            self._restore(creation, modified_offsets, error)
            return

        def on_failed() -> None:
            error = reply.future.exception()
            if error is not None:  # the record may have been written without a response
                creation.failed_write = modified_offsets, _as_exception(error)
                self.deferred_requests.add(creation)

        def on_created() -> None:
            self._names.discard(message.name)
            creation.on_created(modified_offsets.text)

        reply.future.add_done_callback(lambda _: on_failed())
        self._state.writes.write_config(entries, reply, on_created)

    def _restore_unless_written(
        self, creation: _Creation, modified_offsets: OffsetsModified, error: Exception
    ) -> None:
        """Restore the previous offsets, unless the config was written despite the error."""
        entry = self._state.snapshot.config.connectors.get(creation.message.name)
        if entry is not None and entry.config == creation.config:
            self._fail(creation, error)
        else:
            self._restore(creation, modified_offsets, error)

    def _restore(self, creation: _Creation, modified_offsets: OffsetsModified, error: Exception) -> None:
        name = creation.message.name
        restoration = self._offsets.restore(name, creation.kind, creation.config, modified_offsets)

        def report_error() -> None:
            failure = restoration.future.exception()
            if failure is not None:
                log.error("Failed to restore the offsets of %s, which was not created: %s", name, failure)
            self._fail(creation, error)

        restoration.future.add_done_callback(lambda _: report_error())


def _as_exception(error: BaseException) -> Exception:
    return error if isinstance(error, Exception) else KraalError(repr(error))
