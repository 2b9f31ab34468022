"""Tests for ring buffers, their byte limits, and their counts of dropped entries."""

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
    text_bytes,
    truncate,
)

SIZES = st.lists(st.integers(0, 120), max_size=60)


def make_entry(entry: object, size: int) -> Callable[[], tuple[Any, int]]:
    return lambda: (entry, size)


@given(SIZES, st.integers(1, 200), st.none() | st.integers(1, 5))
def test_ring_keeps_the_latest_entries_within_its_limits(
    sizes: list[int], limit: int, max_entries: int | None
) -> None:
    ring: ByteRing[int] = ByteRing(limit, max_entries)
    for number, size in enumerate(sizes):
        ring.append(number, size)
        entries = ring.entries()
        assert ring.size == sum(sizes[entry] for entry in entries) <= limit
        assert max_entries is None or len(entries) <= max_entries
        assert len(ring) == len(entries) == number + 1 - ring.dropped
    fitting_numbers = [number for number, size in enumerate(sizes) if size <= limit]
    content = list(ring.entries())
    assert content == fitting_numbers[len(fitting_numbers) - len(content) :]
    if max_entries is None and len(content) < len(fitting_numbers):
        assert ring.size + sizes[fitting_numbers[-len(content) - 1]] > limit, "no entry is dropped needlessly"


class Model:
    """A model of keyed rings that stores lists in the order in which their keys were last written."""

    def __init__(self, key_limit: int, total_limit: int) -> None:
        self.key_limit, self.total_limit = key_limit, total_limit
        self.entries: dict[str, deque[tuple[int, int]]] = {}
        self.added_counts: dict[str, int] = {}

    def size(self) -> int:
        keys = sum(KEY_BYTES + text_bytes(key) for key in self.entries)
        return keys + sum(size for ring in self.entries.values() for _, size in ring)

    def append(self, key: str, number: int, size: int) -> None:
        self.added_counts[key] = self.added_counts.get(key, 0) + 1
        ring = self.entries.pop(key, deque())
        self.entries[key] = ring  # the key is now the most recently written key
        if size <= self.key_limit:
            ring.append((number, size))
        while sum(size for _, size in ring) > self.key_limit:
            ring.popleft()
        while self.size() > self.total_limit:
            oldest_key = next(iter(self.entries))
            if self.entries[oldest_key]:
                self.entries[oldest_key].popleft()
            if not self.entries[oldest_key]:
                del self.entries[oldest_key]
        self.entries = {key: ring for key, ring in self.entries.items() if ring}


WRITES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 900)), max_size=50)


@given(WRITES, st.integers(0, 800), st.integers(0, 5 * KEY_BYTES))
@settings(max_examples=200)
def test_keyed_rings_evict_the_least_recently_written_key(
    writes: list[tuple[str, int]], key_limit: int, total_limit: int
) -> None:
    rings: KeyedRings[str, int] = KeyedRings(key_limit, total_limit)
    model = Model(key_limit, total_limit)
    for number, (key, size) in enumerate(writes):
        content = rings.append(key, make_entry(number, size))
        model.append(key, number, size)
        assert rings.size == model.size() <= total_limit
        assert content == (key in model.entries)
        assert list(rings.keys()) == list(model.entries)
        for name, added_count in model.added_counts.items():
            kept_entries = rings.read(name)
            assert list(kept_entries.entries) == [entry for entry, _ in model.entries.get(name, ())]
            assert kept_entries.dropped + len(kept_entries.entries) == added_count


def test_keyed_rings_limit_the_entries_per_key() -> None:
    rings: KeyedRings[str, int] = KeyedRings(1000, 10_000, max_entries=3)
    for number in range(5):
        rings.append("a", make_entry(number, 1))
    assert rings.read("a").entries == (2, 3, 4)
    assert rings.read("a").dropped == 2


def test_number_of_empty_keys_is_limited() -> None:
    rings: KeyedRings[str, int] = KeyedRings(100, KEY_BYTES + 200)
    for number in range(3 * MAX_EMPTY_KEYS):
        rings.append(f"key-{number}", make_entry(number, 50))
    assert len(rings.keys()) == 1
    counted_keys = [number for number in range(3 * MAX_EMPTY_KEYS) if rings.read(f"key-{number}").dropped]
    assert counted_keys == list(range(2 * MAX_EMPTY_KEYS - 1, 3 * MAX_EMPTY_KEYS - 1))


def test_zero_byte_ring_only_counts_entries() -> None:
    rings: KeyedRings[str, int] = KeyedRings(0, 0)
    assert not rings.append("a", make_entry(1, 1))
    assert (rings.read("a").entries, rings.read("a").dropped, rings.size) == ((), 1, 0)


def test_memory_of_rings_matches_their_size() -> None:
    rings: KeyedRings[str, tuple[int, str]] = KeyedRings(20_000, 1_000_000)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(20_000):
            text = f"{number} {'x' * (number % 200)}"
            rings.append(
                f"connector-{number % 80}", make_entry((number, text), ENTRY_BYTES + text_bytes(text))
            )
        gc.collect()
        traced_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 900_000 < rings.size <= 1_000_000
    assert traced_bytes < rings.size


def test_reentrant_append_is_rejected() -> None:
    rings: KeyedRings[str, int] = KeyedRings(1000, 10_000)

    def append_reentrantly() -> tuple[int, int]:
        assert not rings.append("a", make_entry(2, 1)), "a finalizer that logs may append on the same thread"
        return 1, 1

    assert rings.append("a", append_reentrantly)
    assert rings.read("a").entries == (1,)


def test_keyed_rings_are_thread_safe() -> None:
    rings: KeyedRings[str, int] = KeyedRings(5_000, 20_000)
    threads = [
        threading.Thread(
            target=lambda start=start: [
                (rings.append(f"k{n % 7}", make_entry(n, n % 300)), rings.read(f"k{n % 5}"))
                for n in range(start, start + 3_000)
            ]
        )
        for start in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rings.size <= 20_000
    names = [f"k{n}" for n in range(7)]
    assert sum(rings.read(k).dropped + len(rings.read(k).entries) for k in names) == 12_000


def test_guard_detects_reentrance() -> None:
    guard = Guard()
    with guard as first, guard as second:
        assert (first, second) == (True, False)
    with guard as first:
        assert first


@given(st.text(), st.integers(3, 50))
def test_text_is_truncated_to_bytes(text: str, limit: int) -> None:
    truncated_text = truncate(text, limit)
    assert len(truncated_text.encode("utf-8", "replace")) <= limit
    if len(text.encode("utf-8", "replace")) <= limit:
        assert truncated_text == text
    else:
        assert truncated_text.endswith("…")
        assert text.startswith(truncated_text[:-1]) or "?" in truncated_text


@pytest.mark.parametrize("text", ["a\ud800b" * 100])
def test_lone_surrogate_is_truncated(text: str) -> None:
    assert len(truncate(text, 20).encode()) <= 20
