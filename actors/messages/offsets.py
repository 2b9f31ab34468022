"""Requests about offsets (KIP-875): what REST asks the herder, what the offset desk receives, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.mailbox import Address, Ask, Tell
from kraal.offsets import Shown

if TYPE_CHECKING:
    from kraal.cluster.offsets import Pair
    from kraal.ids import Config, ConnectorName
    from kraal.offsets import Offset, SourcePartition, TopicPartition


# -- asked of the herder -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOffsets(Ask[Shown]):
    """Return pairs of a partition and how far it is read, as of now. Raises NotFound, KraalError.

    Source: GET /connectors/{c}/offsets (KIP-875).
    """

    name: ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOffsets(Ask[str]):
    """Change offsets of a stopped connector; None deletes one. Answered with a sentence for the user.

    Raises NotLeader, Momentary, NotFound, BadRequest, KraalError. Source: PATCH /connectors/{c}/offsets (KIP-875).
    """

    name: ConnectorName
    offsets: Sequence[Pair]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsets(Ask[str]):
    """Delete all offsets of a stopped connector. Answers and raises as AlterOffsets.

    Source: DELETE /connectors/{c}/offsets (KIP-875).
    """

    name: ConnectorName


# -- told to the desk, and by it ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets(Tell):
    """Read a connector's offsets, also of what was written just now; `OffsetsFetched` goes to `reply_to`."""

    token: int
    name: ConnectorName
    kind: str
    """`source`, `sink`, or `unknown`: its class is not here."""
    config: Config
    reply_to: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyOffsets(Tell):
    """Change a stopped connector's offsets, if its plugin agrees; `OffsetsModified` goes to `reply_to`."""

    token: int
    name: ConnectorName
    kind: str
    config: Config
    reset: bool
    """Delete them all; else change what `source` or `sink` names, whichever the connector is."""
    source: Mapping[SourcePartition, Offset | None] = field(default_factory=dict)
    sink: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    reply_to: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFetched(Tell):
    """What `FetchOffsets` asked for: pairs of a partition and its offset, or `error`."""

    token: int
    pairs: Shown = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsModified(Tell):
    """What `ModifyOffsets` asked for is done, as `text` says for the user, or has failed with `error`."""

    token: int
    text: str = ""
    error: Exception | None = None
