"""Tests for the limit of open files and the garbage collection thresholds of a worker."""

from __future__ import annotations

import gc
import resource
from typing import Any

import pytest

from kraal.worker.resources import (
    MAX_OPEN_FILES,
    YOUNG_THRESHOLD,
    open_files_limit,
    raise_open_files_limit,
    reduce_garbage_collections,
)

UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (1024, 4096, 4096),
        (1024, MAX_OPEN_FILES + 1, MAX_OPEN_FILES),
        (1024, UNLIMITED, MAX_OPEN_FILES),
        (MAX_OPEN_FILES + 1, UNLIMITED, MAX_OPEN_FILES + 1),
        (UNLIMITED, UNLIMITED, UNLIMITED),
    ],
)
def test_soft_limit_is_raised_to_the_hard_limit(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, expected: int
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr("kraal.worker.resources.resource.getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(
        "kraal.worker.resources.resource.setrlimit", lambda _, new_limits: limits.append(new_limits)
    )
    raise_open_files_limit()
    assert (open_files_limit(soft, hard), limits[-1]) == (expected, (expected, hard))


def test_gc_threshold_exceeds_the_objects_of_a_response() -> None:
    generations: list[int] = []

    def record_collection(phase: str, details: dict[str, Any]) -> None:
        if phase == "start":
            generations.append(details["generation"])

    def count_collections() -> int:
        generations.clear()
        assert len([[number] for number in range(YOUNG_THRESHOLD // 2)]) == YOUNG_THRESHOLD // 2
        return len(generations)

    thresholds = gc.get_threshold()
    gc.callbacks.append(record_collection)
    try:
        gc.set_threshold(700, 10, 10)
        default_count = count_collections()
        reduce_garbage_collections()
        gc.collect()
        assert (count_collections(), gc.get_threshold()[1:]) == (0, (10, 10))
        assert default_count >= YOUNG_THRESHOLD // 2 // 700
    finally:
        gc.callbacks.remove(record_collection)
        gc.set_threshold(*thresholds)
