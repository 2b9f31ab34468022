"""Counts and checksums of records that do not depend on the order of the records.

The hash of a record is that of Spark's function `xxhash64(key, value)`: XXH64 of the bytes of the value, with the hash
of the key as its seed; the hash of the key has the seed 42. A null key or value returns its seed. The checksum of
several records is the sum of their hashes modulo 2^64, so a record that is missing, repeated or changed changes the
checksum, and checksums of ranges can be added and subtracted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SEED: Final = 42
"""The seed of Spark's `xxhash64`."""
MODULUS: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Tally:
    """A number of records and their checksum; tallies of disjoint sets of records can be added."""

    count: int = 0
    checksum: int = 0
    """The sum of the hashes, from 0 to 2^64 - 1."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.count + other.count, (self.checksum + other.checksum) % MODULUS)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.count - other.count, (self.checksum - other.checksum) % MODULUS)

    def __str__(self) -> str:
        return f"{self.count:,} records, checksum {self.checksum:016x}"


NO_RECORDS: Final = Tally()


def hash_record(key: bytes | None, value: bytes | None) -> int:
    """Return the hash of a record, from 0 to 2^64 - 1."""
    from xxhash import xxh64_intdigest  # noqa: PLC0415 - clients that only read totals do not need it

    seed = SEED
    for part in (key, value):
        if part is not None:
            seed = xxh64_intdigest(part, seed)
    return seed


def tally_records(records: Iterable[tuple[bytes | None, bytes | None]]) -> Tally:
    """Return the tally of pairs of key and value. For few records: Spark and the JVM count large batches."""
    count = checksum = 0
    for key, value in records:
        count += 1
        checksum += hash_record(key, value)
    return Tally(count, checksum % MODULUS)


def from_signed(count: int, high: int, low: int) -> Tally:
    """Return a tally from the sums of the upper and of the lower 32 bits of the hashes.

    Spark and Java have signed 64-bit integers, whose sums may overflow; the two sums do not, for up to 2^31 records.
    """
    return Tally(count, ((high << 32) + low) % MODULUS)
