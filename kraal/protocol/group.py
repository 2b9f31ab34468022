"""The messages between workers and the leader during a join (ConnectProtocol, IncrementalCooperativeConnectProtocol).

Every worker sends one blob of metadata for each protocol that it offers; the broker elects the best protocol that
all members offer; the leader answers each member with an assignment of that protocol's version.

    name         version   algorithm                  added
    default      0         eager                      url and config offset
    compatible   1         incremental cooperative    allocation; revoked, delay (KIP-415)
    sessioned    2         the same                   nothing; internal requests are signed (KIP-507)
    static       3         static, then the same      static assignments of a worker (KIP-987)

Layouts only ever grow at the end: readers give missing trailing fields their default and ignore bytes after the
fields they know, so one reader serves all versions. A later version appends its own fields in
`encode_metadata` and `decode_metadata`, and is one more row of the tables here. Only the blob under a protocol's own
name has that protocol's fields: Java workers see the same from Kraal as from each other.
Source: ConnectProtocol, IncrementalCooperativeConnectProtocol, ConnectProtocolCompatibility (Kafka 4.4.0); KIP-987,
which does not specify the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import NamedTuple

from kraal.core.errors import ProtocolError
from kraal.core.ids import ConnectorName, Instance, TaskId
from kraal.protocol import wire

CONNECTOR = -1
"""The task number that stands for the connector itself."""


class Job(NamedTuple):
    """A connector's own instance (task -1), or one of its tasks, as the group protocol encodes it.

    A tuple, not an Instance: an assignment handles tens of thousands, and tuples hash and sort natively.
    """

    connector: ConnectorName
    task: int = CONNECTOR

    @property
    def instance(self) -> Instance:
        """The same job as an Instance."""
        return self.connector if self.task == CONNECTOR else TaskId(self.connector, self.task)

    @staticmethod
    def of(instance: Instance) -> Job:
        """Return the job for `instance`."""
        if isinstance(instance, TaskId):
            return Job(instance.connector, instance.task)
        return Job(instance)


class GroupProtocol(StrEnum):
    """A protocol's name in JoinGroup."""

    DEFAULT = "default"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"
    STATIC = "static"

    @property
    def version(self) -> int:
        """The version in the first field of its blobs."""
        return _VERSIONS[self]

    @property
    def cooperative(self) -> bool:
        """Whether members continue to run their work while they rejoin."""
        return self.version >= GroupProtocol.COMPATIBLE.version

    @property
    def signed(self) -> bool:
        """Whether internal requests carry signatures."""
        return self.version >= GroupProtocol.SESSIONED.version

    @property
    def static(self) -> bool:
        """Whether members run their static assignments (KIP-987)."""
        return self.version >= GroupProtocol.STATIC.version


class ConnectProtocol(StrEnum):
    """The values of the key `connect.protocol`; upper case in metrics."""

    EAGER = "eager"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"
    STATIC = "static"

    @property
    def offered(self) -> tuple[GroupProtocol, ...]:
        """The protocols that a worker with this setting offers, the preferred one first."""
        return _OFFERED[self]


_VERSIONS: Mapping[GroupProtocol, int] = MappingProxyType(
    {
        GroupProtocol.DEFAULT: 0,
        GroupProtocol.COMPATIBLE: 1,
        GroupProtocol.SESSIONED: 2,
        GroupProtocol.STATIC: 3,
    }
)
_OFFERED: Mapping[ConnectProtocol, tuple[GroupProtocol, ...]] = MappingProxyType(
    {
        ConnectProtocol.EAGER: (GroupProtocol.DEFAULT,),
        ConnectProtocol.COMPATIBLE: (GroupProtocol.COMPATIBLE, GroupProtocol.DEFAULT),
        ConnectProtocol.SESSIONED: (
            GroupProtocol.SESSIONED,
            GroupProtocol.COMPATIBLE,
            GroupProtocol.DEFAULT,
        ),
        ConnectProtocol.STATIC: (
            GroupProtocol.STATIC,
            GroupProtocol.SESSIONED,
            GroupProtocol.COMPATIBLE,
            GroupProtocol.DEFAULT,
        ),
    }
)


class AssignmentError(IntEnum):
    """The error code of an assignment. Unknown codes stay plain numbers."""

    NO_ERROR = 0
    CONFIG_MISMATCH = 1
    """The leader has not read as far as some member: all members read to the end and rejoin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignment:
    """The leader's assignment for one member; also how a member reports what it runs."""

    version: int
    error: int = AssignmentError.NO_ERROR
    leader: str
    """Member id of the leader."""
    leader_url: str
    config_offset: int
    """The leader's position in the config topic: offset of the last record + 1."""
    assigned: tuple[Job, ...] = ()
    """From version 1 only new work; the member keeps the rest."""
    revoked: tuple[Job, ...] = ()
    """Not in version 0."""
    delay_ms: int = 0
    """Delay until the member rejoins; 0 = none. Not in version 0."""

    @property
    def failed(self) -> bool:
        """Whether the member must ignore it and rejoin."""
        return self.error != AssignmentError.NO_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMetadata:
    """The metadata that one worker sends when it joins."""

    version: int
    url: str
    config_offset: int
    allocation: GroupAssignment | None = None
    """The worker's current work, as if just assigned; None = nothing. Not in version 0."""
    static: tuple[Job, ...] | None = None
    """Its static assignments, the only work it may run; None = it runs any work. From version 3."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One protocol in a JoinGroup request."""

    name: GroupProtocol
    metadata: bytes


def offers(
    protocol: ConnectProtocol,
    url: str,
    config_offset: int,
    allocation: GroupAssignment | None,
    static: tuple[Job, ...] | None = None,
) -> tuple[Offer, ...]:
    """Make a worker's offers for JoinGroup, the preferred protocol first; `static` is sent with protocol `static` only.

    A failed allocation is sent as null unless earlier work continues under it: the leader would treat work that no
    member reports as lost, and start it a second time.
    """
    running = allocation
    if allocation is not None and allocation.failed and not allocation.assigned:
        running = None
    return tuple(
        Offer(
            name,
            encode_metadata(
                WorkerMetadata(
                    version=name.version,
                    url=url,
                    config_offset=config_offset,
                    allocation=running,
                    static=static,
                )
            ),
        )
        for name in protocol.offered
    )


def encode_metadata(metadata: WorkerMetadata) -> bytes:
    """Encode a worker's metadata; the allocation is encoded in the same version.

    Shape: int16 version, STRING url, int64 config_offset, [version >= 1] NULLABLE_BYTES allocation (an assignment),
    [version >= 3] nullable ARRAY (count -1 = null) of (STRING connector, ARRAY of int32 task).
    """
    version = metadata.version
    parts = [wire.int16(version), wire.string(metadata.url), wire.int64(metadata.config_offset)]
    if version >= GroupProtocol.COMPATIBLE.version:
        allocation = metadata.allocation
        parts.append(wire.nullable_bytes(None if allocation is None else _assignment(allocation, version)))
    if version >= GroupProtocol.STATIC.version:
        parts += [wire.int32(-1)] if metadata.static is None else _by_connector(metadata.static)
    return b"".join(parts)


def decode_metadata(data: bytes) -> WorkerMetadata:
    """Decode a worker's metadata of any version. Raises ProtocolError."""
    reader = wire.Reader(data)
    version = _version(reader)
    url, config_offset = reader.string("url"), reader.int64("config offset")
    allocation = reader.nullable_bytes("allocation") if reader.remaining else None
    static = _nullable_jobs(reader, "static") if version >= GroupProtocol.STATIC.version else None
    return WorkerMetadata(
        version=version,
        url=url,
        config_offset=config_offset,
        allocation=None if allocation is None else decode_assignment(allocation),
        static=static,
    )


def encode_assignment(assignment: GroupAssignment) -> bytes:
    """Encode the leader's assignment for one member.

    Shape: int16 version, int16 error, STRING leader, STRING leader_url, int64 config_offset, then an ARRAY of
    (STRING connector, ARRAY of int32 task), [version >= 1] the same for revoked work, int32 delay.
    """
    return _assignment(assignment, assignment.version)


def decode_assignment(data: bytes) -> GroupAssignment:
    """Decode an assignment of any version. Raises ProtocolError."""
    reader = wire.Reader(data)
    return GroupAssignment(
        version=_version(reader),
        error=reader.int16("error"),
        leader=reader.string("leader"),
        leader_url=reader.string("leader url"),
        config_offset=reader.int64("config offset"),
        assigned=_jobs(reader, "assignment"),
        revoked=_jobs(reader, "revoked"),
        delay_ms=reader.int32("delay") if reader.remaining else 0,
    )


def _assignment(assignment: GroupAssignment, version: int) -> bytes:
    parts = [
        wire.int16(version),
        wire.int16(assignment.error),
        wire.string(assignment.leader),
        wire.string(assignment.leader_url),
        wire.int64(assignment.config_offset),
        *_by_connector(assignment.assigned),
    ]
    if version >= GroupProtocol.COMPATIBLE.version:
        parts += [*_by_connector(assignment.revoked), wire.int32(assignment.delay_ms)]
    return b"".join(parts)


def _by_connector(jobs: Iterable[Job]) -> list[bytes]:
    """Encode jobs grouped by connector, in the order of each connector's first job."""
    tasks: dict[ConnectorName, list[int]] = {}
    for connector, task in jobs:
        tasks.setdefault(connector, []).append(task)
    parts = [wire.int32(len(tasks))]
    for connector, numbers in tasks.items():
        parts += [wire.string(connector), wire.int32s(numbers)]
    return parts


def _version(reader: wire.Reader) -> int:
    version = reader.int16("version")
    if version < 0:
        raise ProtocolError(f"unsupported version {version} of the group protocol")
    return version


def _jobs(reader: wire.Reader, field: str) -> tuple[Job, ...]:
    return _nullable_jobs(reader, field) or ()


def _nullable_jobs(reader: wire.Reader, field: str) -> tuple[Job, ...] | None:
    count = reader.nullable_count(field) if reader.remaining else None
    if count is None:
        return None
    jobs: list[Job] = []
    for _ in range(count):
        connector = ConnectorName(reader.string("connector"))
        jobs += [Job(connector, task) for task in reader.int32s("tasks")]
    return tuple(jobs)
