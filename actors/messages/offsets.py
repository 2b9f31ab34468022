"""Offset requests (KIP-875): what the REST API asks the herder, and what the offset service receives and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Address, Ask, Tell
from kraal.core.offsets import Shown

if TYPE_CHECKING:
    from kraal.core.ids import Config, ConnectorName
    from kraal.core.offsets import Offset, Pair, SourcePartition, TopicPartition


# -- sent to the herder -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOffsets(Ask[Shown]):
    """Return pairs of partition and offset as of now. Raises NotFound, KraalError.

    Source: GET /connectors/{c}/offsets (KIP-875).
    """

    name: ConnectorName


@dataclass(frozen=True, slots=True)
class LaggedOffsets:
    """Pairs of partition and offset, and how many offsets each is behind the end of its partition."""

    pairs: Shown
    lags: Sequence[int | None]
    """One a pair, None where the end is unknown; empty for a source, which has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLags(Ask[LaggedOffsets]):
    """Return offsets as of now with their lags. Raises NotFound, KraalError. Kraal's own (`expand=lag`)."""

    name: ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOffsets(Ask[str]):
    """Change offsets of a stopped connector; None deletes one. Answers with a message for the user.

    Raises NotLeader, RetryableConflict, NotFound, BadRequest, KraalError.
    Source: PATCH /connectors/{c}/offsets (KIP-875).
    """

    name: ConnectorName
    offsets: Sequence[Pair]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsets(Ask[str]):
    """Delete all offsets of a stopped connector. Answers and raises as AlterOffsets.

    Source: DELETE /connectors/{c}/offsets (KIP-875).
    """

    name: ConnectorName


# -- sent to and by the offset service ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets(Tell):
    """Read a connector's offsets, including recent writes; `OffsetsFetched` goes to `reply_to`."""

    token: int
    name: ConnectorName
    kind: str
    """`source`, `sink`, or `unknown`: this worker does not have its class."""
    config: Config
    lagging: bool = False
    """Whether to look up the ends of a sink's partitions."""
    reply_to: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyOffsets(Tell):
    """Change the offsets of a connector that has no tasks, if its plugin agrees; `reply_to` gets `OffsetsModified`."""

    token: int
    name: ConnectorName
    kind: str
    config: Config
    reset: bool
    """Delete all offsets; otherwise change those in `source` or `sink`, depending on the connector."""
    source: Mapping[SourcePartition, Offset | None] = field(default_factory=dict)
    sink: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    replace: bool = False
    """Delete all other offsets as well, without asking the plugin about these."""
    restore: bool = False
    """Bring back what there was before, without asking the plugin."""
    reply_to: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFetched(Tell):
    """Result of `FetchOffsets`: pairs of partition and offset with `lags` as in LaggedOffsets, or `error`."""

    token: int
    pairs: Shown = ()
    lags: Sequence[int | None] = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsModified(Tell):
    """Result of `ModifyOffsets`: `text` for the user, or `error`; of a replacement also what brings back the former."""

    token: int
    text: str = ""
    source_before: Mapping[SourcePartition, Offset | None] = field(default_factory=dict)
    sink_before: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    error: Exception | None = None
