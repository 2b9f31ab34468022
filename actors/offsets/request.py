"""Actor of one offset request, which may block.

The offset keeper completes all pending writes of tasks before it reads or writes a source's offsets. Offsets are read
before each change, even if no offset is deleted, so that the store has the keys of each partition. A sink's offsets are
in Kafka, and this actor waits for Kafka itself. Between the read and the write, the connector's plugin validates the
new offsets; a connector object is created only for the validation and is not started.
Source: Worker.connectorOffsets, modifyConnectorOffsets (Kafka 4.4.0).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.instances.plugin_calls import plugin_code
from actors.messages.offsets import FetchOffsets, ModifyOffsets, OffsetsFetched, OffsetsModified
from actors.messages.stores import LoadOffsets, OffsetsFailed, OffsetsLoaded, OffsetsStored, StoreOffsets
from actors.runtime.mailbox import Address, Behaviour, Tell
from kraal.cluster.decisions import offsets as offset_rules
from kraal.core.errors import BadRequest, GroupInUse, KraalError, PluginFailed, StoreError
from kraal.plugins.api import OffsetsNotSupported

if TYPE_CHECKING:
    from actors.exactly_once.claims import SourceTransactions
    from actors.runtime.clock import Clock
    from kraal.core.ids import Config
    from kraal.core.offsets import Offset, SourcePartition, TopicPartition
    from kraal.plugins.api import Connector as Plugin
    from kraal.stores.api import GroupOffsets

log = logging.getLogger(__name__)

KEEPER_TIMEOUT_S = 10.0
"""Timeout of a request to the keeper, which may have died while handling it; a read is then repeated."""
MIN_TIMEOUT_S = 0.001
_NO_OFFSETS: Mapping[Any, None] = {}

Request = FetchOffsets | ModifyOffsets
_tokens = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Dependencies of offset requests."""

    clock: Clock
    keeper: Address
    """Keeper of the source offsets."""
    groups: Callable[[], GroupOffsets]
    """Creates a client of the sinks' offsets for one request; the first call may import kafka-python."""
    transactions: SourceTransactions | None = None
    """Offsets of exactly-once sources; None if the keeper stores them."""
    make_plugin: Callable[[Mapping[str, str]], Plugin]
    """Creates an object of the class in `connector.class`. May raise any error."""
    resolve: Callable[[Config], Mapping[str, str]]
    """Returns a connector's resolved config for plugins and Kafka clients."""


@dataclass(frozen=True, slots=True)
class RetryTimeout(Tell):
    """Timeout of the keeper's response."""

    token: int


def create_request(
    request: Request, address: Address, context: RequestContext, deadline_s: float, on_end: Callable[[], None]
) -> Behaviour:
    """Return the behaviour that completes `request` by `deadline_s` and then calls `on_end`."""
    if request.kind == "sink":
        return _SinkRequest(request, context, deadline_s, on_end)
    if request.kind == "source" and context.transactions is not None:
        return _ExactlyOnceSourceRequest(request, context, context.transactions, deadline_s, on_end)
    if request.kind == "source":
        return _SourceRequest(request, address, context, deadline_s, on_end)
    return _UnknownRequest(request, context, on_end)


def fail(request: Request, error: Exception) -> None:
    """Reply with an error."""
    if isinstance(request, FetchOffsets):
        request.reply_to.tell(OffsetsFetched(token=request.token, error=error))
    else:
        request.reply_to.tell(OffsetsModified(token=request.token, error=error))


def _reply_modified(
    request: ModifyOffsets,
    *,
    managed: bool,
    source_before: Mapping[SourcePartition, Offset | None] = _NO_OFFSETS,
    sink_before: Mapping[TopicPartition, int | None] = _NO_OFFSETS,
) -> None:
    text = offset_rules.modified_text(reset=request.reset, managed=managed)
    request.reply_to.tell(
        OffsetsModified(token=request.token, text=text, source_before=source_before, sink_before=sink_before)
    )


def _source_changes(
    request: ModifyOffsets, stored_offsets: Mapping[SourcePartition, Offset]
) -> Mapping[SourcePartition, Offset | None]:
    """Return the offsets to write, given the stored offsets."""
    if request.reset:
        return dict.fromkeys(stored_offsets)
    return {**dict.fromkeys(stored_offsets), **request.source} if request.replace else request.source


def _validate_by_plugin(
    request: ModifyOffsets, kind: offset_rules.Kind, validate: Callable[[], bool]
) -> bool:
    """Let the plugin validate new offsets; return its result, or True for a restoration, which needs no validation.

    Raises KraalError if the plugin rejects the offsets.
    """
    if request.restore:
        return True
    try:
        with plugin_code(f"altering offsets of {request.name}"):
            return validate()
    except PluginFailed as failure:
        cause = failure.__cause__
        if isinstance(cause, OffsetsNotSupported):
            raise BadRequest(offset_rules.unsupported_text(request.name)) from cause
        if isinstance(cause, ValueError):  # the connector rejects these offsets
            raise BadRequest(str(cause)) from cause
        if isinstance(cause, KraalError):
            raise KraalError(str(cause)) from cause
        log.exception("The plugin of connector %s failed to validate the new offsets", request.name)
        raise KraalError(offset_rules.modification_failed_text(kind, request.name)) from failure


class _UnknownRequest:
    """Request for a connector with an unknown class; replies with the error of loading the class."""

    def __init__(self, request: Request, context: RequestContext, on_end: Callable[[], None]) -> None:
        self._request = request
        self._context = context
        self._on_end = on_end

    def receive(self, message: object) -> None:
        """Reply on any message."""
        del message
        name = self._request.name
        try:
            with plugin_code(f"loading the class of {name}"):
                self._context.make_plugin(self._context.resolve(self._request.config))
        except PluginFailed as failure:
            cause = failure.__cause__
            fail(self._request, KraalError(str(cause if isinstance(cause, KraalError) else failure)))
        else:
            fail(
                self._request, KraalError(f"Cannot determine whether {name} is a source or a sink connector")
            )
        self._on_end()


class _SinkRequest:
    """Request for a sink's offsets; executed in one step that waits for Kafka."""

    def __init__(
        self, request: Request, context: RequestContext, deadline_s: float, on_end: Callable[[], None]
    ) -> None:
        self._request = request
        self._context = context
        self._deadline_s = deadline_s
        self._on_end = on_end

    def receive(self, message: object) -> None:
        """Execute the request on any message."""
        del message
        request = self._request
        try:
            config = self._context.resolve(request.config)
            if isinstance(request, FetchOffsets):
                self._fetch(request, config)
            else:
                self._modify(request, config)
        except KraalError as error:
            fail(request, error)
        self._on_end()

    def _remaining_s(self) -> float:
        return max(self._deadline_s - self._context.clock.now(), MIN_TIMEOUT_S)

    def _fetch(self, request: FetchOffsets, config: Mapping[str, str]) -> None:
        group_offsets, name = self._context.groups(), request.name
        try:
            committed_offsets = group_offsets.read(name, config, timeout_s=self._remaining_s())
            ends = (
                group_offsets.ends(name, config, committed_offsets, timeout_s=self._remaining_s())
                if request.with_lags
                else None
            )
        except KraalError as error:
            raise _reported_error(offset_rules.fetch_failed_text("sink", name), error) from error
        lags = () if ends is None else offset_rules.sink_lags(committed_offsets, ends)
        request.reply_to.tell(
            OffsetsFetched(token=request.token, pairs=offset_rules.sink_pairs(committed_offsets), lags=lags)
        )

    def _modify(self, request: ModifyOffsets, config: Mapping[str, str]) -> None:
        group_offsets, name = self._context.groups(), request.name
        committed_offsets: Mapping[TopicPartition, int] = {}
        if request.reset or request.replace:
            try:
                committed_offsets = group_offsets.read(name, config, timeout_s=self._remaining_s())
            except KraalError as error:
                raise _reported_error(offset_rules.unreadable_offsets_text(name), error) from error
        requested_offsets: dict[TopicPartition, int | None] = (
            dict.fromkeys(committed_offsets) if request.reset else dict(request.sink)
        )

        def alter() -> bool:
            plugin = self._context.make_plugin(config)
            if request.reset:
                stored_partitions = plugin.stored_sink_partitions(config, committed_offsets.keys())
                requested_offsets.update(dict.fromkeys(stored_partitions))
            return plugin.alter_sink_offsets(config, requested_offsets)

        managed = _validate_by_plugin(request, "sink", alter)
        new_offsets = {**dict.fromkeys(committed_offsets), **requested_offsets}
        if self._context.clock.now() >= self._deadline_s:
            raise KraalError(offset_rules.plugin_timeout_text("sink", name))
        try:
            if request.reset:
                group_offsets.delete(name, config, timeout_s=self._remaining_s())
            else:
                group_offsets.alter(name, config, new_offsets, timeout_s=self._remaining_s())
        except GroupInUse as error:
            raise _reported_error(offset_rules.group_in_use_text(name, reset=request.reset), error) from error
        except KraalError as error:
            raise _reported_error(
                offset_rules.group_modification_failed_text(name, reset=request.reset), error
            ) from error
        _reply_modified(
            request,
            managed=managed,
            sink_before={partition: committed_offsets.get(partition) for partition in new_offsets},
        )


class _ExactlyOnceSourceRequest:
    """Request for the offsets of an exactly-once source; executed in one step that waits for Kafka."""

    def __init__(
        self,
        request: Request,
        context: RequestContext,
        transactions: SourceTransactions,
        deadline_s: float,
        on_end: Callable[[], None],
    ) -> None:
        self._request = request
        self._context = context
        self._transactions = transactions
        self._deadline_s = deadline_s
        self._on_end = on_end

    def receive(self, message: object) -> None:
        """Execute the request on any message."""
        del message
        request, name = self._request, self._request.name
        is_fetch = isinstance(request, FetchOffsets)
        try:
            config = self._context.resolve(request.config)
            try:
                stored_offsets = self._transactions.load(name, config)
                if isinstance(request, FetchOffsets):
                    pairs = offset_rules.source_pairs(stored_offsets)
                    request.reply_to.tell(OffsetsFetched(token=request.token, pairs=pairs))
                else:
                    self._modify(request, config, stored_offsets)
            except StoreError as error:
                text = (
                    offset_rules.fetch_failed_text("source", name)
                    if is_fetch
                    else offset_rules.modification_failed_text("source", name)
                )
                raise _reported_error(text, error) from error
        except KraalError as error:
            fail(request, error)
        self._on_end()

    def _modify(
        self,
        request: ModifyOffsets,
        config: Mapping[str, str],
        stored_offsets: Mapping[SourcePartition, Offset],
    ) -> None:
        changes = _source_changes(request, stored_offsets)
        requested_offsets = request.source if request.replace else changes
        managed = _validate_by_plugin(
            request,
            "source",
            lambda: self._context.make_plugin(config).alter_offsets(config, requested_offsets),
        )
        if self._context.clock.now() >= self._deadline_s:
            raise KraalError(offset_rules.plugin_timeout_text("source", request.name))
        if changes:
            self._transactions.alter(request.name, config, changes)
        _reply_modified(
            request,
            managed=managed,
            source_before={partition: stored_offsets.get(partition) for partition in changes},
        )


class _SourceRequest:
    """Request for a source's offsets, which the keeper reads and writes and the plugin validates."""

    def __init__(
        self,
        request: Request,
        address: Address,
        context: RequestContext,
        deadline_s: float,
        on_end: Callable[[], None],
    ) -> None:
        self._request = request
        self._address = address
        self._context = context
        self._deadline_s = deadline_s
        self._on_end = on_end
        self._token = 0
        """Token of the pending request to the keeper; 0 after completion."""
        self._is_storing = False
        self._is_managed = False
        self._previous_offsets: Mapping[SourcePartition, Offset | None] = {}

    def receive(self, message: object) -> None:
        """Handle one message. Replies to earlier requests are dropped."""
        try:
            match message:
                case RetryTimeout() if message.token == self._token:
                    self._handle_timeout()
                case OffsetsLoaded() if message.token == self._token:
                    self._on_loaded(message.offsets)
                case OffsetsStored() if message.token == self._token:
                    self._on_stored()
                case OffsetsFailed() if message.token == self._token:
                    raise self._on_failed(message.error)
                case RetryTimeout() | OffsetsLoaded() | OffsetsStored() | OffsetsFailed():
                    return
                case _:
                    self._load()
        except KraalError as error:
            fail(self._request, error)
            self._end()

    def _end(self) -> None:
        self._token = 0
        self._on_end()

    def _load(self) -> None:
        self._token = next(_tokens)
        self._context.keeper.tell(
            LoadOffsets(connector=self._request.name, reply_to=self._address, token=self._token)
        )
        self._schedule_timeout(KEEPER_TIMEOUT_S)

    def _schedule_timeout(self, timeout_s: float) -> None:
        clock = self._context.clock
        remaining_s = max(self._deadline_s - clock.now(), MIN_TIMEOUT_S)
        clock.after(min(timeout_s, remaining_s), self._address, RetryTimeout(self._token))

    def _handle_timeout(self) -> None:
        request = self._request
        if self._context.clock.now() < self._deadline_s:
            self._load()
        elif isinstance(request, FetchOffsets):
            raise KraalError(offset_rules.fetch_failed_text("source", request.name))
        elif self._is_storing:
            raise KraalError(offset_rules.write_timeout_text(request.name))
        else:
            raise KraalError(offset_rules.read_timeout_text(request.name))

    def _on_failed(self, error: Exception) -> KraalError:
        name = self._request.name
        is_fetch = isinstance(self._request, FetchOffsets)
        return _reported_error(
            offset_rules.fetch_failed_text("source", name)
            if is_fetch
            else offset_rules.modification_failed_text("source", name),
            error,
        )

    def _on_loaded(self, stored_offsets: Mapping[SourcePartition, Offset]) -> None:
        request = self._request
        if isinstance(request, FetchOffsets):
            pairs = offset_rules.source_pairs(stored_offsets)
            request.reply_to.tell(OffsetsFetched(token=request.token, pairs=pairs))
            self._end()
            return
        changes = _source_changes(request, stored_offsets)
        requested_offsets = request.source if request.replace else changes
        config = self._context.resolve(request.config)
        self._is_managed = _validate_by_plugin(
            request,
            "source",
            lambda: self._context.make_plugin(config).alter_offsets(config, requested_offsets),
        )
        self._previous_offsets = {partition: stored_offsets.get(partition) for partition in changes}
        if self._context.clock.now() >= self._deadline_s:
            raise KraalError(offset_rules.plugin_timeout_text("source", request.name))
        if not changes:
            self._on_stored()
            return
        self._is_storing = True
        self._token = next(_tokens)
        self._context.keeper.tell(
            StoreOffsets(connector=request.name, offsets=changes, reply_to=self._address, token=self._token)
        )
        # Not retried, because a second write could overwrite offsets that a resumed task has stored.
        self._schedule_timeout(self._deadline_s)

    def _on_stored(self) -> None:
        if isinstance(self._request, ModifyOffsets):
            _reply_modified(self._request, managed=self._is_managed, source_before=self._previous_offsets)
        self._end()


def _reported_error(text: str, cause: Exception) -> KraalError:
    """Log the cause of an error; return the error for the user."""
    log.error("%s: %s", text, cause)
    return KraalError(text)
