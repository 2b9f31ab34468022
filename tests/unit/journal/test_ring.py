"""Rings never hold more bytes than they may, and say how many entries they have dropped."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraal.journal.ring import (
    ENTRY_BYTES,
    KEY_BYTES,
    MAX_EMPTY_KEYS,
    ByteRing,
    Guard,
    KeyedRings,
    cut,
    text_bytes,
)

SIZES = st.lists(st.integers(0, 120), max_size=60)


def of(entry: object, size: int) -> Callable[[], tuple[Any, int]]:
    return lambda: (entry, size)


@given(SIZES, st.integers(1, 200), st.none() | st.integers(1, 5))
def test_a_ring_has_the_latest_entries_within_its_limits(
    sizes: list[int], limit: int, max_entries: int | None
) -> None:
    ring: ByteRing[int] = ByteRing(limit, max_entries)
    for number, size in enumerate(sizes):
        ring.append(number, size)
        entries = ring.entries()
        assert ring.size == sum(sizes[each] for each in entries) <= limit
        assert max_entries is None or len(entries) <= max_entries
        assert len(ring) == len(entries) == number + 1 - ring.dropped
    fitting = [number for number, size in enumerate(sizes) if size <= limit]
    content = list(ring.entries())
    assert content == fitting[len(fitting) - len(content) :]
    if max_entries is None and len(content) < len(fitting):
        assert ring.size + sizes[fitting[-len(content) - 1]] > limit, "nothing is dropped without need"


class Model:
    """What a ring of rings has to hold: lists, and the order in which keys were written."""

    def __init__(self, each: int, total: int) -> None:
        self.each, self.total = each, total
        self.entries: dict[str, deque[tuple[int, int]]] = {}
        self.added: dict[str, int] = {}

    def size(self) -> int:
        keys = sum(KEY_BYTES + text_bytes(key) for key in self.entries)
        return keys + sum(size for ring in self.entries.values() for _, size in ring)

    def append(self, key: str, number: int, size: int) -> None:
        self.added[key] = self.added.get(key, 0) + 1
        ring = self.entries.pop(key, deque())
        self.entries[key] = ring  # written last
        if size <= self.each:
            ring.append((number, size))
        while sum(size for _, size in ring) > self.each:
            ring.popleft()
        while self.size() > self.total:
            oldest = next(iter(self.entries))
            if self.entries[oldest]:
                self.entries[oldest].popleft()
            if not self.entries[oldest]:
                del self.entries[oldest]
        self.entries = {key: ring for key, ring in self.entries.items() if ring}


WRITES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 900)), max_size=50)


@given(WRITES, st.integers(0, 800), st.integers(0, 5 * KEY_BYTES))
@settings(max_examples=200)
def test_rings_by_key_drop_what_was_written_least_recently(
    writes: list[tuple[str, int]], each: int, total: int
) -> None:
    rings: KeyedRings[str, int] = KeyedRings(each, total)
    model = Model(each, total)
    for number, (key, size) in enumerate(writes):
        content = rings.append(key, of(number, size))
        model.append(key, number, size)
        assert rings.size == model.size() <= total
        assert content == (key in model.entries)
        assert list(rings.keys()) == list(model.entries)
        for name, added in model.added.items():
            kept_entries = rings.read(name)
            assert list(kept_entries.entries) == [each for each, _ in model.entries.get(name, ())]
            assert kept_entries.dropped + len(kept_entries.entries) == added


def test_rings_by_key_have_a_maximum_number_of_entries_each() -> None:
    rings: KeyedRings[str, int] = KeyedRings(1000, 10_000, max_entries=3)
    for number in range(5):
        rings.append("a", of(number, 1))
    assert rings.read("a").entries == (2, 3, 4)
    assert rings.read("a").dropped == 2


def test_keys_without_entries_do_not_pile_up() -> None:
    rings: KeyedRings[str, int] = KeyedRings(100, KEY_BYTES + 200)
    for number in range(3 * MAX_EMPTY_KEYS):
        rings.append(f"key-{number}", of(number, 50))
    assert len(rings.keys()) == 1
    counted = [number for number in range(3 * MAX_EMPTY_KEYS) if rings.read(f"key-{number}").dropped]
    assert counted == list(range(2 * MAX_EMPTY_KEYS - 1, 3 * MAX_EMPTY_KEYS - 1))


def test_a_ring_of_zero_bytes_only_counts() -> None:
    rings: KeyedRings[str, int] = KeyedRings(0, 0)
    assert not rings.append("a", of(1, 1))
    assert (rings.read("a").entries, rings.read("a").dropped, rings.size) == ((), 1, 0)


def test_the_memory_of_rings_matches_their_size() -> None:
    rings: KeyedRings[str, tuple[int, str]] = KeyedRings(20_000, 1_000_000)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(20_000):
            text = f"{number} {'x' * (number % 200)}"
            rings.append(f"connector-{number % 80}", of((number, text), ENTRY_BYTES + text_bytes(text)))
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 900_000 < rings.size <= 1_000_000
    assert taken < rings.size


def test_reentrant_append_is_rejected() -> None:
    rings: KeyedRings[str, int] = KeyedRings(1000, 10_000)

    def make() -> tuple[int, int]:
        assert not rings.append("a", of(2, 1)), "a finalizer that logs comes here on the same thread"
        return 1, 1

    assert rings.append("a", make)
    assert rings.read("a").entries == (1,)


def test_many_threads_may_append_and_read() -> None:
    rings: KeyedRings[str, int] = KeyedRings(5_000, 20_000)
    threads = [
        threading.Thread(
            target=lambda start=start: [
                (rings.append(f"k{n % 7}", of(n, n % 300)), rings.read(f"k{n % 5}"))
                for n in range(start, start + 3_000)
            ]
        )
        for start in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert rings.size <= 20_000
    names = [f"k{n}" for n in range(7)]
    assert sum(rings.read(k).dropped + len(rings.read(k).entries) for k in names) == 12_000


def test_a_guard_detects_reentrance() -> None:
    guard = Guard()
    with guard as first, guard as second:
        assert (first, second) == (True, False)
    with guard as first:
        assert first


@given(st.text(), st.integers(3, 50))
def test_a_text_is_cut_to_bytes(text: str, limit: int) -> None:
    shortened = cut(text, limit)
    assert len(shortened.encode("utf-8", "replace")) <= limit
    if len(text.encode("utf-8", "replace")) <= limit:
        assert shortened == text
    else:
        assert shortened.endswith("…")
        assert text.startswith(shortened[:-1]) or "?" in shortened


@pytest.mark.parametrize("text", ["a\ud800b" * 100])
def test_half_a_pair_is_no_obstacle(text: str) -> None:
    assert len(cut(text, 20).encode()) <= 20
