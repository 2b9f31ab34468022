"""Messages that the herder receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.messages.fencer import ProducersFenced
from actors.messages.offsets import OffsetsFetched, OffsetsModified
from actors.messages.publisher import PublishFailed, TasksPublished
from actors.runtime.mailbox import Address, Ask, Tell
from kraal.core.ids import Json

if TYPE_CHECKING:
    from kraal.cluster.assignment.leader import GroupPlan
    from kraal.cluster.state.wanted_work import Assignment, Incarnation
    from kraal.core.ids import (
        Config,
        ConnectorName,
        Generation,
        Instance,
        State,
        TargetState,
        TaskId,
        TopicName,
    )
    from kraal.core.offsets import Pair
    from kraal.core.records import Record
    from kraal.plugins.validation.infos import ConfigInfos
    from kraal.protocol.group import GroupProtocol


# -- sent by web, cli and tests ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConnector(Ask[str | None]):
    """Create a connector. Replies when the snapshot contains it, with a message about any initial offsets.

    If `initial_state` is None, the connector starts as RUNNING, and no target state is written.
    Raises BadRequest, ConfigInvalid, AlreadyExists, NotLeader, RetryableConflict, StoreError.
    Source: POST /connectors (KIP-980 for `initial_state`, KIP-995 for `initial_offsets`).
    """

    name: ConnectorName
    config: Config
    initial_state: TargetState | None = None
    initial_offsets: Sequence[Pair] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConfig(Ask[bool]):
    """Create or replace a config; replies with True if the connector was created. Raises like CreateConnector.

    Source: PUT /connectors/{c}/config.
    """

    name: ConnectorName
    config: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchConfig(Ask[None]):
    """Merge `patch` into a config; null removes a key. Raises NotFound, and the errors of CreateConnector.

    Source: PATCH /connectors/{c}/config (KIP-477).
    """

    name: ConnectorName
    patch: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteConnector(Ask[None]):
    """Delete a connector but not its offsets. Raises NotFound, NotLeader, StoreError.

    Source: DELETE /connectors/{c}.
    """

    name: ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTargetState(Ask[None]):
    """Pause, resume or stop a connector; replies when the target state is stored, not when it is reached.

    Raises NotFound, StoreError; NotLeader for STOPPED. Source: KIP-52, KIP-875, PUT /connectors/{c}/{pause,…}.
    """

    name: ConnectorName
    target: TargetState


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartConnector(Ask[dict[str, Json] | None]):
    """Restart a connector, optionally with its tasks, or only those of them that failed (KIP-745).

    Without options, replies with None (204) when the connector has started again; otherwise replies with the body of
    the 202 response. An instance on this worker restarts at once; other requests wait while a rebalance is due or in
    progress.
    Raises NotFound, NotLeader, NotOwner, RetryableConflict; KraalError if the start fails.
    """

    name: ConnectorName
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTask(Ask[None]):
    """Restart one task; replies when the task has started again. Raises NotFound, NotOwner, RetryableConflict.

    Source: POST /connectors/{c}/tasks/{t}/restart.
    """

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTopics(Ask[None]):
    """Reset the active topics of a connector (KIP-558). Raises Forbidden, StoreError."""

    name: ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTaskConfigs(Ask[None]):
    """Publish the task configs of a connector on another worker; replies when the configs have been read back.

    Raises NotLeader, NotFound, BadRequest for a stopped connector, StoreError.
    Source: POST /connectors/{c}/tasks, which workers send to the leader.
    """

    name: ConnectorName
    configs: Sequence[Config]


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceZombies(Ask[None]):
    """Fence the producers of a source connector's older tasks (KIP-618). Raises NotLeader, NotFound, BadRequest.

    Source: PUT /connectors/{c}/fence, which workers send to the leader.
    """

    name: ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLoggerLevel(Ask[None]):
    """Set the level of a logger namespace on every worker; replies when this worker has set it. Raises StoreError.

    Any worker accepts this request. Source: PUT /admin/loggers/{logger}?scope=cluster (KIP-976).
    """

    namespace: str
    level: str
    """One of log4j's levels, case-insensitive."""


@dataclass(frozen=True, slots=True)
class WaitUntilLive(Ask[None]):
    """Wait until the logs are read and the snapshot is complete."""


@dataclass(frozen=True, slots=True)
class Ping(Ask[None]):
    """Health check (`GET /health`); replies once startup is complete. A blocked herder does not reply."""


# -- sent by readers, writers and the validator --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRead(Tell):
    """Records of an internal topic, in order. `next_offset` is the reader's position."""

    topic: str
    """`config` or `status`."""
    records: Sequence[Record]
    next_offset: int
    caught_up: bool
    """Whether the reader has reached the log's end as of the start of the replay; stays true."""
    replay: int
    """Number of the replay; the herder drops records of older replays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReached(Tell):
    """The reader has sent all records up to the end that `ReadToEnd` requested, or has failed with `error`."""

    token: int
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended(Tell):
    """The records sent with `token` are in the log; the last record has `offset`."""

    token: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailed(Tell):
    """Writing the records sent with `token` failed; the records may nevertheless be in the log."""

    token: int
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated(Tell):
    """A config was validated off the herder's thread. Exactly one of `infos` and `error` is set."""

    token: int
    infos: ConfigInfos | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ActorRestarted(Tell):
    """A reader, writer, validator or other actor was restarted and lost the messages that it was processing."""

    address: Address


# -- sent by membership -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRevoked(Tell):
    """Stop all instances that are not in `keep`.

    Confirmed by `Membership.on_stopped(number)` when no other instance runs and all pending statuses are written.
    """

    number: int
    keep: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentReceived(Tell):
    """The complete set of work that this worker runs from now on, not a difference.

    Sent only after the published snapshot has reached `config_offset`, so the work may start at once.
    """

    generation: Generation
    assignment: Assignment
    leader_url: str | None
    is_leader: bool
    config_offset: int
    """The leader's config offset; a worker starts no work before it has read up to this offset."""
    protocol: GroupProtocol | None = None
    """The protocol of the group; None in standalone mode."""
    plan: GroupPlan | None = None
    """Owners of all work and their URLs; only on the leader of a cluster."""


@dataclass(frozen=True, slots=True)
class GroupLost(Tell):
    """The group has no known leader. Running instances continue until `WorkRevoked` is received."""

    reason: str


@dataclass(frozen=True, slots=True)
class HerderTick(Tell):
    """Liveness check; the herder calls `Membership.on_alive(number)`. A worker whose herder hangs leaves the group."""

    number: int


@dataclass(frozen=True, slots=True)
class ClusterIdReceived(Tell):
    """Kafka has responded with its cluster id."""

    cluster_id: str


# -- sent by the worker, with the incarnation ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceChanged(Tell):
    """An instance of this worker is now in `state`, one of Connect's states.

    UNASSIGNED with `stopped` means that the instance no longer runs on this worker. UNASSIGNED without `stopped` means
    that the instance is starting or waiting; `trace` then contains the reason for the wait, if any.
    """

    instance: Instance
    incarnation: Incarnation
    state: State
    trace: str | None = None
    version: str | None = None
    stopped: bool = False
    recovers: bool = False
    """Whether the instance failed because Spark or the plugins' JVM exited, and recovers without a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigsGenerated(Tell):
    """A running connector reported its task configs."""

    name: ConnectorName
    incarnation: Incarnation
    configs: Sequence[Config]
    """The configs as stored, with variables instead of values from config providers."""
    renewed: bool = False
    """Whether values of variables changed, so that the tasks are restarted even if their configs are unchanged."""
    failed: bool = False
    """Whether the connector failed to generate configs and retries; `configs` is empty, and earlier configs apply."""
    failure: str = ""
    """Reason of the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsSeen(Tell):
    """A task wrote to or read from topics that the snapshot did not list (KIP-558)."""

    task: TaskId
    topics: frozenset[TopicName]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport(Tell):
    """Instances of this process that run or wait to start; a new herder adopts them instead of restarting them."""

    running: Mapping[Instance, InstanceChanged] = field(default_factory=dict)
    wanted: Mapping[Instance, Incarnation] = field(default_factory=dict)
    """Incarnations that the worker keeps running, or starts once the running ones have stopped."""


@dataclass(frozen=True, slots=True)
class CheckSessionKey(Tell):
    """Check whether the session key has expired (KIP-507)."""


@dataclass(frozen=True, slots=True)
class CheckRestarts(Tell):
    """Check whether an automatic restart of a failed instance is due."""


@dataclass(frozen=True, slots=True)
class CompareStatuses(Tell):
    """Compare the stored statuses of this worker's instances with the worker's report."""


@dataclass(frozen=True, slots=True)
class HideRestarting(Tell):
    """Stop showing these instances as RESTARTING, regardless of their reports (KIP-745)."""

    instances: frozenset[Instance]


# -- sent by the process ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartupDone(Ask[None]):
    """The connectors given on the command line exist, so `/health` may report healthy. Resent if the herder died."""


@dataclass(frozen=True, slots=True)
class ShutDown(Ask[None]):
    """Stop all work gracefully, write its statuses, then reply. Later requests fail with 503."""


HerderMessage = (
    WaitUntilLive
    | Ping
    | RecordsRead
    | EndReached
    | Appended
    | AppendFailed
    | Validated
    | ActorRestarted
    | WorkRevoked
    | AssignmentReceived
    | GroupLost
    | HerderTick
    | ClusterIdReceived
    | InstanceChanged
    | TaskConfigsGenerated
    | TopicsSeen
    | WorkerReport
    | TasksPublished
    | PublishFailed
    | ProducersFenced
    | OffsetsFetched
    | OffsetsModified
    | CheckSessionKey
    | CompareStatuses
    | HideRestarting
    | CheckRestarts
    | StartupDone
    | ShutDown
)
"""Messages other than commands (`actors.herding.requests.Command`)."""
