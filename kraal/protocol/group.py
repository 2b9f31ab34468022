"""The messages between workers and the leader during a join (ConnectProtocol, IncrementalCooperativeConnectProtocol).

Every worker sends metadata for each protocol that it offers. The broker selects a protocol that all members offer, and
the leader sends each member an assignment in that protocol's version.

    name         version   algorithm                  added
    default      0         eager                      url and config offset
    compatible   1         incremental cooperative    allocation; revoked, delay (KIP-415)
    sessioned    2         the same                   nothing; internal requests are signed (KIP-507)
    static       3         static, then the same      static assignments of a worker (KIP-987)

Fields are only appended: readers use defaults for missing trailing fields and ignore bytes after the known fields, so
one reader supports all versions. A later version appends its fields in `encode_metadata` and `decode_metadata`. The
metadata for a protocol contains only the fields of its version, so Java workers receive the same metadata from Kraal as
from each other.
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
"""The task number that represents the connector itself."""


class ConnectorOrTask(NamedTuple):
    """A connector (task -1) or a task, as in the group protocol.

    A tuple instead of an `Instance`, because an assignment processes tens of thousands of connectors and tasks, and
    tuples are faster to hash and sort.
    """

    connector: ConnectorName
    task: int = CONNECTOR

    @property
    def instance(self) -> Instance:
        """The connector or task as an `Instance`."""
        return self.connector if self.task == CONNECTOR else TaskId(self.connector, self.task)

    @staticmethod
    def of(instance: Instance) -> ConnectorOrTask:
        """Return `instance` as a tuple."""
        if isinstance(instance, TaskId):
            return ConnectorOrTask(instance.connector, instance.task)
        return ConnectorOrTask(instance)


class GroupProtocol(StrEnum):
    """The name of a protocol in JoinGroup."""

    DEFAULT = "default"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"
    STATIC = "static"

    @property
    def version(self) -> int:
        """The version in the first field of the protocol's messages."""
        return _VERSIONS[self]

    @property
    def is_cooperative(self) -> bool:
        """Whether members keep their work running while they rejoin."""
        return self.version >= GroupProtocol.COMPATIBLE.version

    @property
    def is_signed(self) -> bool:
        """Whether internal requests are signed."""
        return self.version >= GroupProtocol.SESSIONED.version

    @property
    def is_static(self) -> bool:
        """Whether static assignments are supported (KIP-987)."""
        return self.version >= GroupProtocol.STATIC.version


class ConnectProtocol(StrEnum):
    """The values of `connect.protocol`; in upper case in metrics."""

    EAGER = "eager"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"
    STATIC = "static"

    @property
    def offered_protocols(self) -> tuple[GroupProtocol, ...]:
        """The protocols that a worker with this value offers, the preferred one first."""
        return _OFFERED_PROTOCOLS[self]


_VERSIONS: Mapping[GroupProtocol, int] = MappingProxyType(
    {
        GroupProtocol.DEFAULT: 0,
        GroupProtocol.COMPATIBLE: 1,
        GroupProtocol.SESSIONED: 2,
        GroupProtocol.STATIC: 3,
    }
)
_OFFERED_PROTOCOLS: Mapping[ConnectProtocol, tuple[GroupProtocol, ...]] = MappingProxyType(
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
    """The error code of an assignment. Unknown codes are plain integers."""

    NO_ERROR = 0
    CONFIG_MISMATCH = 1
    """The leader has read less of the config topic than a member; all members read to the end and rejoin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAssignment:
    """The leader's assignment for a member. Members also report their current work in this format."""

    version: int
    error: int = AssignmentError.NO_ERROR
    leader: str
    """The member id of the leader."""
    leader_url: str
    config_offset: int
    """The leader's position in the config topic, the offset of the last record plus 1."""
    assigned: tuple[ConnectorOrTask, ...] = ()
    """All work in version 0, only new work in later versions."""
    revoked: tuple[ConnectorOrTask, ...] = ()
    """Not in version 0."""
    delay_ms: int = 0
    """Delay until the member rejoins; 0 for no delay. Not in version 0."""

    @property
    def failed(self) -> bool:
        """Whether the member must ignore the assignment and rejoin."""
        return self.error != AssignmentError.NO_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMetadata:
    """The metadata that a worker sends in a join."""

    version: int
    url: str
    config_offset: int
    allocation: GroupAssignment | None = None
    """The worker's current work, as an assignment; None if the worker has no work. Not in version 0."""
    static_assignment: tuple[ConnectorOrTask, ...] | None = None
    """The only work that the worker may run; None if it has no static assignments. Since version 3."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A protocol in a JoinGroup request."""

    name: GroupProtocol
    metadata: bytes


def make_offers(
    protocol: ConnectProtocol,
    url: str,
    config_offset: int,
    allocation: GroupAssignment | None,
    static_assignment: tuple[ConnectorOrTask, ...] | None = None,
) -> tuple[Offer, ...]:
    """Return a worker's offers for JoinGroup, the preferred protocol first.

    Only the metadata of the protocol `static` contains the static assignments. A failed allocation is sent as null
    unless earlier work continues: the leader would treat work that no member reports as lost, and start it a second
    time.
    """
    sent_allocation = allocation
    if allocation is not None and allocation.failed and not allocation.assigned:
        sent_allocation = None
    return tuple(
        Offer(
            name,
            encode_metadata(
                WorkerMetadata(
                    version=name.version,
                    url=url,
                    config_offset=config_offset,
                    allocation=sent_allocation,
                    static_assignment=static_assignment,
                )
            ),
        )
        for name in protocol.offered_protocols
    )


def encode_metadata(metadata: WorkerMetadata) -> bytes:
    """Encode a worker's metadata and, in the same version, its allocation.

    Format: int16 version, STRING url, int64 config_offset, [version >= 1] NULLABLE_BYTES allocation (an assignment),
    [version >= 3] nullable ARRAY (count -1 = null) of (STRING connector, ARRAY of int32 task).
    """
    version = metadata.version
    parts = [wire.int16(version), wire.string(metadata.url), wire.int64(metadata.config_offset)]
    if version >= GroupProtocol.COMPATIBLE.version:
        allocation = metadata.allocation
        parts.append(
            wire.nullable_bytes(None if allocation is None else _encode_assignment(allocation, version))
        )
    if version >= GroupProtocol.STATIC.version:
        static_assignment = metadata.static_assignment
        parts += (
            [wire.int32(-1)] if static_assignment is None else _encode_connectors_and_tasks(static_assignment)
        )
    return b"".join(parts)


def decode_metadata(data: bytes) -> WorkerMetadata:
    """Decode a worker's metadata of any version. Raises ProtocolError."""
    reader = wire.Reader(data)
    version = _read_version(reader)
    url, config_offset = reader.string("url"), reader.int64("config offset")
    allocation = reader.nullable_bytes("allocation") if reader.remaining else None
    static_assignment = (
        _read_nullable_connectors_and_tasks(reader, "static")
        if version >= GroupProtocol.STATIC.version
        else None
    )
    return WorkerMetadata(
        version=version,
        url=url,
        config_offset=config_offset,
        allocation=None if allocation is None else decode_assignment(allocation),
        static_assignment=static_assignment,
    )


def encode_assignment(assignment: GroupAssignment) -> bytes:
    """Encode the leader's assignment for a member.

    Format: int16 version, int16 error, STRING leader, STRING leader_url, int64 config_offset, then an ARRAY of
    (STRING connector, ARRAY of int32 task), [version >= 1] the same for revoked work, int32 delay.
    """
    return _encode_assignment(assignment, assignment.version)


def decode_assignment(data: bytes) -> GroupAssignment:
    """Decode an assignment of any version. Raises ProtocolError."""
    reader = wire.Reader(data)
    return GroupAssignment(
        version=_read_version(reader),
        error=reader.int16("error"),
        leader=reader.string("leader"),
        leader_url=reader.string("leader url"),
        config_offset=reader.int64("config offset"),
        assigned=_read_connectors_and_tasks(reader, "assignment"),
        revoked=_read_connectors_and_tasks(reader, "revoked"),
        delay_ms=reader.int32("delay") if reader.remaining else 0,
    )


def _encode_assignment(assignment: GroupAssignment, version: int) -> bytes:
    parts = [
        wire.int16(version),
        wire.int16(assignment.error),
        wire.string(assignment.leader),
        wire.string(assignment.leader_url),
        wire.int64(assignment.config_offset),
        *_encode_connectors_and_tasks(assignment.assigned),
    ]
    if version >= GroupProtocol.COMPATIBLE.version:
        parts += [*_encode_connectors_and_tasks(assignment.revoked), wire.int32(assignment.delay_ms)]
    return b"".join(parts)


def _encode_connectors_and_tasks(connectors_and_tasks: Iterable[ConnectorOrTask]) -> list[bytes]:
    """Encode connectors and tasks grouped by connector, in the order in which the connectors first occur."""
    tasks: dict[ConnectorName, list[int]] = {}
    for connector, task in connectors_and_tasks:
        tasks.setdefault(connector, []).append(task)
    parts = [wire.int32(len(tasks))]
    for connector, task_numbers in tasks.items():
        parts += [wire.string(connector), wire.int32s(task_numbers)]
    return parts


def _read_version(reader: wire.Reader) -> int:
    version = reader.int16("version")
    if version < 0:
        raise ProtocolError(f"unsupported version {version} of the group protocol")
    return version


def _read_connectors_and_tasks(reader: wire.Reader, field: str) -> tuple[ConnectorOrTask, ...]:
    return _read_nullable_connectors_and_tasks(reader, field) or ()


def _read_nullable_connectors_and_tasks(
    reader: wire.Reader, field: str
) -> tuple[ConnectorOrTask, ...] | None:
    count = reader.nullable_count(field) if reader.remaining else None
    if count is None:
        return None
    connectors_and_tasks: list[ConnectorOrTask] = []
    for _ in range(count):
        connector = ConnectorName(reader.string("connector"))
        connectors_and_tasks += [ConnectorOrTask(connector, task) for task in reader.int32s("tasks")]
    return tuple(connectors_and_tasks)
