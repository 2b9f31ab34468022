"""Tests for the records of the ledger's topic."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.core.ids import ConnectorName
from kraal.core.offsets import SourcePartition
from kraal.ledger.counts import Counts
from kraal.ledger.records import decode_key, decode_totals, encode_key, encode_totals
from kraal.ledger.tally import MODULUS, Tally
from kraal.ledger.totals import Break, Segment, Totals

numbers = st.integers(0, 10**12)
positions = numbers | st.text(max_size=20)
tallies = st.builds(Tally, numbers, st.integers(0, MODULUS - 1))
counts = st.builds(
    Counts,
    read=tallies,
    written=tallies,
    dropped=numbers,
    made=numbers,
    dead_letters=numbers,
    tolerated=numbers,
)
all_totals = st.builds(
    Totals,
    since=positions,
    end=positions,
    counts=counts,
    repeated=numbers,
    segments=st.lists(
        st.builds(Segment, start=positions, end=positions, counts=counts, level=st.integers(0, 40)),
        max_size=4,
    ).map(tuple),
    breaks=st.lists(st.builds(Break, start=positions, end=positions, reason=st.text()), max_size=2).map(
        tuple
    ),
    break_count=numbers,
    uncounted=st.lists(st.tuples(positions, positions), max_size=2).map(tuple),
    uncounted_count=numbers,
)


@given(all_totals)
def test_totals_survive_encoding(totals: Totals) -> None:
    assert decode_totals(encode_totals(totals)) == totals


@given(st.text(), st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()))
def test_keys_survive_encoding(connector: str, fields: dict[str, bool | int | str | None]) -> None:
    key = encode_key(ConnectorName(connector), SourcePartition.of(fields))
    assert decode_key(key) == (connector, SourcePartition.of(fields))


def test_key_does_not_depend_on_the_order_of_fields() -> None:
    partitions = [SourcePartition.of({"a": 1, "b": 2}), SourcePartition.of({"b": 2, "a": 1})]
    assert len({encode_key(ConnectorName("x"), each) for each in partitions}) == 1


@pytest.mark.parametrize("key", ["", "x", "[]", '["x"]', '["x",1]', "[1,{}]"])
def test_keys_of_other_formats_are_ignored(key: str) -> None:
    assert decode_key(key) is None


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="tombstone"),
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff", id="not UTF-8"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"version":1}', id="without fields"),
        pytest.param(json.dumps({"version": 2, "since": 0}).encode(), id="a later version"),
    ],
)
def test_other_values_are_ignored(value: bytes | None) -> None:
    assert decode_totals(value) is None
