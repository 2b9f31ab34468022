"""Tests for failed components of the worker in a response to `GET /health`."""

from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.down_parts import DownPart, down_parts

NOW_MS = 1_700_000_100_400


def test_failed_components_have_titles_and_times() -> None:
    health = {
        "status": "healthy",
        "down": [
            {"part": "spark", "why": "it starts again", "down_ms": 90_000},
            {"part": "lane", "why": "it has ended", "down_ms": 90_300},
            {"part": "plugins-jvm:orders", "why": "it does not start", "down_ms": None},
            {"part": "gpu", "why": "", "down_ms": 1_000},
        ],
    }
    assert down_parts(health, NOW_MS) == [
        DownPart("Spark", 1_700_000_010_000, "it starts again"),
        DownPart("The Spark task for small batches", 1_700_000_010_000, "it has ended"),
        DownPart("The JVM of Java plugins for orders", None, "it does not start"),
        DownPart("gpu", 1_700_000_099_000, ""),
    ]


@pytest.mark.parametrize("health", [None, [], {}, {"down": None}, {"down": "spark"}, {"down": ["spark"]}])
def test_response_without_components_is_empty(health: Any) -> None:
    assert down_parts(health, NOW_MS) == []
