"""Messages of the actors that own a log or the offset store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Address, Tell
from actors.runtime.system import Begin

if TYPE_CHECKING:
    from kraal.core.ids import ConnectorName
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.core.records import Entry
    from kraal.engine.api import Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Tell):
    """Write `entries` atomically; `Appended` or `AppendFailed` with `token` is sent to `reply_to`."""

    token: int
    entries: Sequence[Entry]
    reply_to: Address
    leased: bool = False
    """Whether to write only while this worker holds its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAppend(Tell):
    """Retry failed writes, except those of keys that have been written again since."""

    entries: Sequence[Entry]
    attempt: int
    leased: bool
    """`leased` of the failed `Append`."""


@dataclass(frozen=True, slots=True)
class Replay(Tell):
    """Read the log from `start` and keep reading; every RecordsRead contains this number."""

    number: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class ReadNext(Tell):
    """There may be new records in the log."""


@dataclass(frozen=True, slots=True)
class ReadToEnd(Tell):
    """Read to the log's current end; `EndReached` with this token is sent to the herder after the records."""

    token: int


@dataclass(frozen=True, slots=True)
class PollNext(Tell):
    """Wait for the next records of a log with other writers; the reader ignores an outdated `turn`."""

    turn: int


@dataclass(frozen=True, slots=True)
class ClaimWrites(Tell):
    """Fence earlier leaders, so that they can no longer write leader-only records (KIP-618)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOffsets(Tell):
    """Read a connector's offsets; `OffsetsLoaded` or `OffsetsFailed` is sent to `reply_to`."""

    connector: ConnectorName
    reply_to: Address
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOffsets(Tell):
    """Write offsets durably; `OffsetsStored` or `OffsetsFailed` is sent to `reply_to`."""

    connector: ConnectorName
    offsets: Mapping[SourcePartition, Offset | None]
    reply_to: Address
    token: int
    lease: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Checked just before the write, because the worker may have been suspended and its work reassigned meanwhile."""


@dataclass(frozen=True, slots=True)
class FlushOffsets(Tell):
    """Immediately write all offsets received since the last write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLoaded(Tell):
    """Result of LoadOffsets."""

    token: int
    offsets: Mapping[SourcePartition, Offset]
    transactions: Transactions | None = field(default=None, compare=False)
    """Set in the reply to ClaimTask; owned by the receiver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsStored(Tell):
    """The offsets of StoreOffsets are on disk or in Kafka."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFailed(Tell):
    """Reading or writing offsets failed."""

    token: int
    error: Exception


WriterMessage = Begin | Append | RetryAppend | ClaimWrites
ReaderMessage = Begin | Replay | ReadNext | PollNext | ReadToEnd
OffsetsMessage = Begin | LoadOffsets | StoreOffsets | FlushOffsets
