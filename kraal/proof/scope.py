"""The records that a proof of a sink compares: all, those since a time, or a sample."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

_PERCENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofScope:
    """The records to compare."""

    since_ms: int | None = None
    """The timestamp of the first record, in milliseconds since the epoch; None for all records."""
    sample_percent: float | None = None
    """The share of each partition's records to compare, in percent; None for all of these records."""

    @property
    def is_complete(self) -> bool:
        """Whether all records are compared."""
        return self.since_ms is None and self.sample_percent is None


ALL_RECORDS: Final = ProofScope()


def choose_sample(start: int, end: int, percent: float) -> tuple[int, int]:
    """Return adjacent offsets at a random position in `[start, end)`: this share of them, but at least one."""
    count = min(end - start, max(1, math.ceil((end - start) * percent / _PERCENT)))
    first = random.randint(start, end - count)  # noqa: S311 - not for cryptography
    return first, first + count
