"""What the actors that own a log or the offset store receive, and what they answer by `Tell`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.mailbox import Address, Tell
from actors.system import Begin

if TYPE_CHECKING:
    from kraal.ids import ConnectorName
    from kraal.offsets import Offset, SourcePartition
    from kraal.records import Entry
    from kraal.spark.api import Transactions


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Tell):
    """Write `entries`, all or none; `Appended` or `AppendFailed` with `token` goes to `reply_to`."""

    token: int
    entries: Sequence[Entry]
    reply_to: Address
    leased: bool = False
    """Written only as long as this worker may act for its group: it says what this worker does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAgain(Tell):
    """Time to try what failed again, unless newer values of its keys were written meanwhile."""

    entries: Sequence[Entry]
    attempt: int


@dataclass(frozen=True, slots=True)
class Replay(Tell):
    """Read the log from `start`, and go on; every RecordsRead carries this number."""

    number: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class ReadOn(Tell):
    """There is, or may be, something new in the log."""


@dataclass(frozen=True, slots=True)
class ReadToEnd(Tell):
    """Read on to the end that the log has now; `EndRead` with this token goes to the herder behind all records."""

    token: int


@dataclass(frozen=True, slots=True)
class FollowOn(Tell):
    """Wait for the next records of a log that others write too; only the newest `turn` counts."""

    turn: int


@dataclass(frozen=True, slots=True)
class ClaimWrites(Tell):
    """This worker leads now: from here on nobody who led before it can write what only a leader may (KIP-618)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOffsets(Tell):
    """Read a connector's offsets; `OffsetsLoaded` or `OffsetsFailed` goes to `reply_to`."""

    connector: ConnectorName
    reply_to: Address
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOffsets(Tell):
    """Write offsets durably; `OffsetsStored` or `OffsetsFailed` goes to `reply_to`."""

    connector: ConnectorName
    offsets: Mapping[SourcePartition, Offset | None]
    reply_to: Address
    token: int
    lease: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Asked just before the write: a worker may have stood still since this was sent, and the work have moved."""


@dataclass(frozen=True, slots=True)
class FlushOffsets(Tell):
    """Write everything that came since the last write, in one go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsLoaded(Tell):
    """What LoadOffsets asked for."""

    token: int
    offsets: Mapping[SourcePartition, Offset]
    transactions: Transactions | None = field(default=None, compare=False)
    """What ClaimTask asked for besides; the receiver's alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsStored(Tell):
    """What StoreOffsets asked for is on disk, or in Kafka."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsFailed(Tell):
    """Offsets could not be read or written."""

    token: int
    error: Exception


WriterMessage = Begin | Append | AppendAgain | ClaimWrites
ReaderMessage = Begin | Replay | ReadOn | FollowOn | ReadToEnd
OffsetsMessage = Begin | LoadOffsets | StoreOffsets | FlushOffsets
