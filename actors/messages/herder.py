"""What the herder receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.mailbox import Address, Ask, Tell
from actors.messages.fencer import ProducersFenced
from actors.messages.offsets import AlterOffsets, OffsetsFetched, OffsetsModified, ResetOffsets, ShowOffsets
from actors.messages.publisher import PublishFailed, TasksPublished
from kraal.ids import Json

if TYPE_CHECKING:
    from kraal.cluster.assign import GroupPlan
    from kraal.cluster.work import Assignment, Incarnation
    from kraal.ids import (
        Config,
        ConnectorName,
        Generation,
        Instance,
        State,
        TargetState,
        TaskId,
        TopicName,
    )
    from kraal.plugins.infos import ConfigInfos
    from kraal.protocol.group import GroupProtocol
    from kraal.records import Record


# -- asked by web, cli and tests ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateConnector(Ask[None]):
    """Create a connector; answered when the snapshot has it.

    Raises BadRequest, ConfigInvalid, AlreadyExists, NotLeader, Momentary, StoreError.
    Source: POST /connectors; KIP-980 for `initial_state` (None: RUNNING, and no record for it).
    """

    name: ConnectorName
    config: Config
    initial_state: TargetState | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutConfig(Ask[bool]):
    """Create or replace a config; True when it was created. Raises as CreateConnector.

    Source: PUT /connectors/{c}/config.
    """

    name: ConnectorName
    config: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchConfig(Ask[None]):
    """Merge `patch` into a config; null removes a key. Raises NotFound and as CreateConnector.

    Source: PATCH /connectors/{c}/config (KIP-477).
    """

    name: ConnectorName
    patch: Config


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteConnector(Ask[None]):
    """Delete a connector; offsets stay. Raises NotFound, NotLeader, StoreError.

    Source: DELETE /connectors/{c}.
    """

    name: ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTargetState(Ask[None]):
    """Pause, resume or stop; answered when the wish is stored, not when it came true.

    Raises NotFound, StoreError; NotLeader for STOPPED. Source: KIP-52, KIP-875, PUT /connectors/{c}/{pause,…}.
    """

    name: ConnectorName
    target: TargetState


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartConnector(Ask[dict[str, Json] | None]):
    """Restart a connector's instance, its tasks, or what of them failed (KIP-745).

    Answers None (204) for the plain form, when the connector was started again; else the 202 body.
    Raises NotFound, NotLeader, NotOwner, Momentary, KraalError when the start failed.
    """

    name: ConnectorName
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartTask(Ask[None]):
    """Restart one task; answered when it was started again. Raises NotFound, NotOwner, Momentary.

    Source: POST /connectors/{c}/tasks/{t}/restart.
    """

    task: TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTopics(Ask[None]):
    """Forget the topics a connector has used (KIP-558). Raises Forbidden, StoreError."""

    name: ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class PutTaskConfigs(Ask[None]):
    """Publish the tasks of a connector that another worker runs; answered when they were read back.

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
    """Set the level of a namespace of loggers on every worker; answered when it is so here. Raises StoreError.

    Any worker may ask for it. Source: PUT /admin/loggers/{logger}?scope=cluster (KIP-976).
    """

    namespace: str
    level: str
    """As typed: one of log4j's levels, in any letter case."""


@dataclass(frozen=True, slots=True)
class AwaitLive(Ask[None]):
    """Answered when the logs are read: the snapshot shows what there is."""


@dataclass(frozen=True, slots=True)
class Ping(Ask[None]):
    """Answered as soon as start-up is over: `GET /health`. A herder that hangs does not answer."""


# -- told by readers, writers and the validator ------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRead(Tell):
    """Records of an internal topic, in order. `next_offset` is where the reader stands now."""

    topic: str
    """`config` or `status`."""
    records: Sequence[Record]
    next_offset: int
    caught_up: bool
    """The reader has been at the end that the log had when it started; stays true."""
    replay: int
    """Rises when the reader starts from the beginning again: older replays are dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRead(Tell):
    """`RecordsRead` of everything that was there at `ReadToEnd` have been sent before this; or `error`."""

    token: int
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended(Tell):
    """The records sent with `token` are in the log; the last one has `offset`."""

    token: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailed(Tell):
    """The records sent with `token` are not in the log, as far as can be known."""

    token: int
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated(Tell):
    """A config was checked, off the herder's thread. Exactly one of `infos` and `error`."""

    token: int
    infos: ConfigInfos | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Reborn(Tell):
    """A reader, a writer, the validator, the offset desk or another was restarted: what it had in hand is lost."""

    address: Address


# -- told by membership ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRevoked(Tell):
    """Stop everything that is not in `keep`.

    Answered by `Membership.stopped(number)` when nothing else runs and all statuses so far are written.
    """

    number: int
    keep: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentReceived(Tell):
    """What this worker is to run from now on: all of it, not a change.

    Sent only while the published snapshot is as far as `config_offset`, so the work may start at once.
    """

    generation: Generation
    assignment: Assignment
    leader_url: str | None
    is_leader: bool
    config_offset: int
    """The leader's config offset: a worker starts nothing before it has read that far."""
    protocol: GroupProtocol | None = None
    """What the group speaks; None in standalone."""
    plan: GroupPlan | None = None
    """Who owns what, and where they are; on the leader of a cluster only."""


@dataclass(frozen=True, slots=True)
class GroupLost(Tell):
    """No leader is known now. What runs goes on until `WorkRevoked` says otherwise."""

    reason: str


@dataclass(frozen=True, slots=True)
class HerderTick(Tell):
    """Answered at once by `Membership.alive(number)`: a herder that hangs must leave the group."""

    number: int


@dataclass(frozen=True, slots=True)
class KafkaClusterFound(Tell):
    """Kafka answered for the first time and said who it is."""

    cluster_id: str


# -- told by the worker: every fact carries the incarnation it is about ------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceChanged(Tell):
    """An instance of this worker is now in `state`, as Connect's status would say.

    UNASSIGNED with `stopped` means that it is not here any more; without, that it is on its way (`trace` says
    what it waits for).
    """

    instance: Instance
    incarnation: Incarnation
    state: State
    trace: str | None = None
    version: str | None = None
    stopped: bool = False
    recovers: bool = False
    """FAILED, and comes back without a restart: Spark died under it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConfigsMade(Tell):
    """A running connector says what its tasks are to be."""

    name: ConnectorName
    incarnation: Incarnation
    configs: Sequence[Config]
    """As they are stored: what a config provider resolved is a variable again."""
    renewed: bool = False
    """Values behind variables are others now: tasks are to start again, also with the same configs."""
    failed: bool = False
    """It could not say; what it said before counts, and it tries again. There are no configs then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsSeen(Tell):
    """A task wrote to, or read from, topics that the snapshot did not list (KIP-558)."""

    task: TaskId
    topics: frozenset[TopicName]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport(Tell):
    """Everything that runs in this process: what a new herder adopts instead of starting it again."""

    running: Mapping[Instance, InstanceChanged] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckSessionKey(Tell):
    """The session key may have expired (KIP-507)."""


@dataclass(frozen=True, slots=True)
class LookForRestarts(Tell):
    """An automatic restart of something that has failed may be due."""


@dataclass(frozen=True, slots=True)
class HideRestarting(Tell):
    """These have been shown as RESTARTING long enough, whatever they say (contract 0.2)."""

    instances: frozenset[Instance]


# -- told by the process -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartupDone(Ask[None]):
    """The command line's connectors exist: `/health` may say healthy. Of a herder that died it is asked again."""


@dataclass(frozen=True, slots=True)
class ShutDown(Ask[None]):
    """Stop all work gracefully and write its statuses; answered when done. Later requests get 503."""


HerderMessage = (
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
    | SetLoggerLevel
    | ShowOffsets
    | AlterOffsets
    | ResetOffsets
    | AwaitLive
    | Ping
    | RecordsRead
    | EndRead
    | Appended
    | AppendFailed
    | Validated
    | Reborn
    | WorkRevoked
    | AssignmentReceived
    | GroupLost
    | HerderTick
    | KafkaClusterFound
    | InstanceChanged
    | TaskConfigsMade
    | TopicsSeen
    | WorkerReport
    | TasksPublished
    | PublishFailed
    | ProducersFenced
    | OffsetsFetched
    | OffsetsModified
    | CheckSessionKey
    | HideRestarting
    | LookForRestarts
    | StartupDone
    | ShutDown
)
