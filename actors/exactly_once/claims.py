"""Claims: the startup steps of a source task with exactly-once support (KIP-618). Each claim has its own actor.

    fence at the leader ──► init_transactions ──► verify ──► load offsets
    (older tasks)           (this task's older     (still assigned here, with
                             producers)             the same task configs?)

Each step may wait for brokers or another worker, which delays only the task itself. Retriable failures are reported as
StoreUnavailable, and the task retries. A task that stops meanwhile cancels its claim, so that a claim that has not
fenced yet does not fence the producer of the task's next incarnation.
Source: Worker.startExactlyOnceSourceTask, DistributedHerder.startTask,
ExactlyOnceWorkerSourceTask.prepareToInitializeTask (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from actors.messages.claims import CancelClaim, ClaimTask, VerifyTask
from actors.messages.herder import FenceZombies
from actors.messages.stores import OffsetsFailed, OffsetsLoaded
from actors.runtime.mailbox import Address, Tell
from actors.runtime.system import Begin
from kraal.core.errors import (
    ActorDied,
    Conflict,
    Fenced,
    KraalError,
    NotLeader,
    StoreUnavailable,
    TimedOut,
    Unavailable,
)
from kraal.core.lease import MUST_NOT_WRITE
from kraal.peers import MakeContext, PeerFailed, PeerRefused, send_fence

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from actors.runtime.system import System
    from kraal.cluster.views.snapshot import Published
    from kraal.core.ids import Config, ConnectorName, TaskId
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.engine.api import Transactions

CLAIM_TIMEOUT_S = 120.0
"""Timeout of a claim, after which the task retries."""
_RETRIABLE_ERRORS = (ActorDied, Conflict, Fenced, PeerFailed, StoreUnavailable, TimedOut, Unavailable)
_RETRIABLE_STATUSES = frozenset({HTTPStatus.CONFLICT, HTTPStatus.FORBIDDEN, HTTPStatus.SERVICE_UNAVAILABLE})
"""HTTP statuses of a peer that is not the leader, is about to become the leader or lacks the session key."""
_FENCING_FAILED = "Failed to perform zombie fencing"


class SourceTransactions(Protocol):
    """Transactional producers and offsets of sources. Thread-safe; all methods block.

    `config` is the connector's resolved config.
    """

    def claim(self, task: TaskId, config: Mapping[str, str], *, tracks: bool = False) -> Transactions:
        """Return a producer that has fenced all older producers of the task. Raises StoreUnavailable, KraalError.

        `tracks`: whether the producer reports the offsets of records.
        """

    def load(self, connector: ConnectorName, config: Mapping[str, str]) -> Mapping[SourcePartition, Offset]:
        """Return a connector's offsets. Raises StoreUnavailable, StoreError."""

    def alter(
        self,
        connector: ConnectorName,
        config: Mapping[str, str],
        offsets: Mapping[SourcePartition, Offset | None],
    ) -> None:
        """Write offsets through the producer of the connector's first task. Raises KraalError.

        A None value deletes the offset of that partition.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRequest:
    """Fencing request to a leader on another worker."""

    leader_url: str
    name: ConnectorName
    key: bytes | None
    algorithm: str


SendFence = Callable[[FenceRequest], Future[None] | None]
"""Sends one request; returns None after the response, or a future in single-threaded tests. Raises KraalError."""


def fence_at_leader(request: FenceRequest, tls: MakeContext | None = None) -> None:
    """Send the request over HTTP or HTTPS, and wait for the response. Raises PeerRefused, PeerFailed."""
    send_fence(request.leader_url, request.name, key=request.key, algorithm=request.algorithm, tls=tls)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimContext:
    """Dependencies of claims."""

    clock: Clock
    herder: Address
    published: Published
    transactions: SourceTransactions
    send: SendFence
    algorithm: str
    resolve: Callable[[Config], Mapping[str, str]]
    """Returns a connector's config with resolved variables. May raise any error."""
    tracks: Callable[[Config], bool]
    """Returns whether a connector's tasks may request the offsets of their records."""


@dataclass(frozen=True, slots=True)
class _StepCompleted(Tell):
    """A step of a claim has completed."""

    step: str
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class _ClaimTimedOut(Tell):
    """A claim has timed out."""


class Claims:
    """Starts an actor for each claim."""

    def __init__(self, *, system: System, context: ClaimContext, pending: dict[int, Address]) -> None:
        """`pending`: claims in progress by token; outlives this actor."""
        self._system = system
        self._context = context
        self._pending = pending

    def receive(self, message: Begin | ClaimTask | CancelClaim) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case ClaimTask():
                if message.token not in self._pending:
                    self._start(message)
            case CancelClaim():
                address = self._pending.get(message.token)
                if address is not None:
                    address.tell(message)
            case _:
                assert_never(message)

    def _start(self, message: ClaimTask) -> None:
        address = self._pending[message.token] = Address(f"claim of {message.task} {message.token}")

        def finish() -> None:
            self._pending.pop(message.token, None)
            self._system.stop(address)

        def on_death(error: BaseException) -> None:
            self._pending.pop(message.token, None)
            message.reply_to.tell(OffsetsFailed(token=message.token, error=KraalError(repr(error))))

        self._system.spawn(address, lambda: _Claim(address, message, self._context, finish), on_death)


class _Claim:
    """The actor of one claim; each reply triggers the next step."""

    def __init__(
        self, address: Address, request: ClaimTask, context: ClaimContext, finish: Callable[[], None]
    ) -> None:
        self._address = address
        self._request = request
        self._context = context
        self._finish = finish
        self._config: Mapping[str, str] = {}
        self._transactions: Transactions | None = None
        self._is_ended = False

    def receive(self, message: object) -> None:
        """Handle one message. Late messages are dropped."""
        if self._is_ended:
            return
        try:
            match message:
                case Begin():
                    self._context.clock.after(CLAIM_TIMEOUT_S, self._address, _ClaimTimedOut())
                    self._await_step("fence", self._context.herder.question(FenceZombies(name=self._name)))
                case _StepCompleted("fence", error) if isinstance(error, NotLeader):
                    self._fence_at(error.leader_url)
                case _StepCompleted("fence" | "fence at leader" as step, error):
                    self._raise_error(error, _FENCING_FAILED if step == "fence" else "")
                    self._claim()
                case _StepCompleted("verify", error):
                    self._raise_error(error, "")
                    self._load()
                case _ClaimTimedOut():
                    self._finish_claim(StoreUnavailable("timed out"))
                case CancelClaim():
                    self._finish_claim(None)
                case _:
                    pass
        except KraalError as error:
            self._finish_claim(error)
        except Exception as error:  # noqa: BLE001 - config providers may raise any error
            self._finish_claim(KraalError(f"{type(error).__name__}: {error}"))

    @property
    def _name(self) -> ConnectorName:
        return self._request.task.connector

    def _await_step(self, step: str, future: Future[Any]) -> None:
        address = self._address
        future.add_done_callback(lambda done: address.tell(_StepCompleted(step, done.exception())))

    def _fence_at(self, url: str | None) -> None:
        if url is None:
            raise StoreUnavailable("the group has no known leader")
        snapshot = self._context.published.latest
        key = snapshot.config.session_key
        is_signed_protocol = snapshot.protocol is not None and snapshot.protocol.is_signed
        response = self._context.send(
            FenceRequest(
                leader_url=url,
                name=self._name,
                key=key.key if is_signed_protocol and key is not None else None,
                algorithm=self._context.algorithm,
            )
        )
        if response is None:
            self._claim()
        else:
            self._await_step("fence at leader", response)

    def _claim(self) -> None:
        if not self._request.lease():
            raise StoreUnavailable(MUST_NOT_WRITE)
        task, context = self._request.task, self._context
        self._config = context.resolve(self._request.config)
        tracks = context.tracks(self._request.config)
        self._transactions = context.transactions.claim(task, self._config, tracks=tracks)
        self._await_step(
            "verify", context.herder.question(VerifyTask(task=task, version=self._request.version))
        )

    def _load(self) -> None:
        offsets = self._context.transactions.load(self._name, self._config)
        request, transactions = self._request, self._transactions
        self._transactions = None
        request.reply_to.tell(OffsetsLoaded(token=request.token, offsets=offsets, transactions=transactions))
        self._finish_claim(None)

    def _raise_error(self, error: BaseException | None, prefix: str) -> None:
        """Raise the error of a step, if any."""
        if error is None:
            return
        if not isinstance(error, KraalError) or isinstance(error, (*_RETRIABLE_ERRORS, PeerRefused)):
            raise error
        raise KraalError(str(error) if prefix in str(error) else f"{prefix}: {error}")

    def _finish_claim(self, error: KraalError | None) -> None:
        self._is_ended = True
        if self._transactions is not None:
            self._transactions.close()
        if error is not None:
            is_retriable = isinstance(error, _RETRIABLE_ERRORS) or (
                isinstance(error, PeerRefused) and error.status in _RETRIABLE_STATUSES
            )
            if is_retriable and not isinstance(error, StoreUnavailable):
                error = StoreUnavailable(str(error))
            self._request.reply_to.tell(OffsetsFailed(token=self._request.token, error=error))
        self._finish()
