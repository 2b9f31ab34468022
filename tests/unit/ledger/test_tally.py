"""Tests for tallies: the hash of a record, and checksums that do not depend on the order."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kraal.ledger.tally import MODULUS, NO_RECORDS, Tally, from_signed, hash_record, tally_records

records = st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary()), max_size=20)


def test_hashes_equal_those_of_spark() -> None:
    # SELECT xxhash64(CAST('a' AS BINARY), CAST('b' AS BINARY)), and so on, with Spark 4.2.0.
    assert hash_record(None, None) == 42
    assert hash_record(None, b"") == hash_record(b"", None)
    assert hash_record(b"a", b"b") != hash_record(b"b", b"a")


@given(records, st.randoms(use_true_random=False))
def test_checksum_does_not_depend_on_the_order(
    pairs: list[tuple[bytes | None, bytes | None]], rng: random.Random
) -> None:
    shuffled = list(pairs)
    rng.shuffle(shuffled)
    assert tally_records(shuffled) == tally_records(pairs)


@given(records, records)
def test_tallies_of_disjoint_ranges_add_up(
    first: list[tuple[bytes | None, bytes | None]], second: list[tuple[bytes | None, bytes | None]]
) -> None:
    both = tally_records(first + second)
    assert tally_records(first) + tally_records(second) == both
    assert both - tally_records(second) == tally_records(first)


@given(records.filter(bool), st.data())
def test_a_missing_repeated_or_changed_record_changes_the_checksum(
    pairs: list[tuple[bytes | None, bytes | None]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(pairs) - 1))
    tally = tally_records(pairs)
    key, value = pairs[at]
    changed = (key, b"x" if value is None else value + b"x")
    assert tally_records(pairs[:at] + pairs[at + 1 :]) != tally
    assert tally_records([*pairs, pairs[at]]) != tally
    assert tally_records([*pairs[:at], changed, *pairs[at + 1 :]]).checksum != tally.checksum


@given(st.lists(st.integers(0, MODULUS - 1), max_size=50))
def test_sums_of_halves_equal_the_checksum(hashes: list[int]) -> None:
    high, low = sum(h >> 32 for h in hashes), sum(h & 0xFFFFFFFF for h in hashes)
    assert from_signed(len(hashes), high, low) == Tally(len(hashes), sum(hashes) % MODULUS)
    assert from_signed(0, 0, 0) == NO_RECORDS
