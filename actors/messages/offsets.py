"""Messages of offset requests (KIP-875) to the herder, and to and from the offset service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Address, Ask, Tell
from kraal.core.offsets import OffsetPairs

if TYPE_CHECKING:
    from kraal.core.ids import Config, ConnectorName
    from kraal.core.offsets import Offset, Pair, SourcePartition, TopicPartition


# -- sent to the herder -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOffsets(Ask[OffsetPairs]):
    """Return the current pairs of partition and offset. Raises NotFound, KraalError.

    Source: GET /connectors/{c}/offsets (KIP-875).
    """

    name: ConnectorName


@dataclass(frozen=True, slots=True)
class LaggedOffsets:
    """Pairs of partition and offset with the lag of each."""

    pairs: OffsetPairs
    lags: Sequence[int | None]
    """The lag of each pair; None if the end offset is unknown. Empty for a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowLags(Ask[LaggedOffsets]):
    """Return the current offsets with their lags. Raises NotFound, KraalError.

    Source: GET /connectors/{c}/offsets?expand=lag, Kraal's addition.
    """

    name: ConnectorName


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterOffsets(Ask[str]):
    """Change offsets of a stopped connector; None deletes a partition's offset. Replies with a message for the user.

    Raises NotLeader, RetryableConflict, NotFound, BadRequest, KraalError.
    Source: PATCH /connectors/{c}/offsets (KIP-875).
    """

    name: ConnectorName
    offsets: Sequence[Pair]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffsets(Ask[str]):
    """Delete all offsets of a stopped connector. Replies and raises like AlterOffsets.

    Source: DELETE /connectors/{c}/offsets (KIP-875).
    """

    name: ConnectorName


# -- sent to and by the offset service ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets(Tell):
    """Read a connector's offsets, including recent writes; `OffsetsFetched` is sent to `reply_to`."""

    token: int
    name: ConnectorName
    kind: str
    """`source` or `sink`; `unknown` if the class in `connector.class` is not installed on this worker."""
    config: Config
    with_lags: bool = False
    """Whether to look up the end offsets of a sink's partitions."""
    reply_to: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ModifyOffsets(Tell):
    """Change the offsets of a connector without tasks if its plugin accepts the change. Reply: `OffsetsModified`."""

    token: int
    name: ConnectorName
    kind: str
    config: Config
    reset: bool
    """Whether to delete all offsets; otherwise the offsets in `source` or `sink` are changed."""
    source: Mapping[SourcePartition, Offset | None] = field(default_factory=dict)
    sink: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    replace: bool = False
    """Whether to delete all other offsets as well; the plugin does not validate the deletion."""
    restore: bool = False
    """Whether to restore previous offsets, without validation by the plugin."""
    reply_to: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFetched(Tell):
    """Result of `FetchOffsets`: pairs of partition and offset with `lags` as in LaggedOffsets, or `error`."""

    token: int
    pairs: OffsetPairs = ()
    lags: Sequence[int | None] = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsModified(Tell):
    """Result of `ModifyOffsets`: `text` for the user, or `error`. Previous offsets are valid only for a replacement."""

    token: int
    text: str = ""
    source_before: Mapping[SourcePartition, Offset | None] = field(default_factory=dict)
    sink_before: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    error: Exception | None = None
