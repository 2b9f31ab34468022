"""Failed components of the worker, such as Spark. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from web.ui.views.json_values import get_integer, mapping, maps, text

_TITLES = {
    "spark": "Spark",
    "lane": "The Spark task for small batches",
    "plugins-jvm": "The JVM of Java plugins",
}


@dataclass(frozen=True, slots=True)
class DownPart:
    """Failed component of the worker that tasks require."""

    title: str
    since_ms: int | None
    """Time of the failure in milliseconds since the epoch, rounded to seconds; None if unknown."""
    why: str


def down_parts(health: Any, now_ms: int) -> Sequence[DownPart]:
    """Return the failed components that `GET /health` listed at the time `now_ms`."""
    return [
        DownPart(
            _component_title(text(component, "part")),
            _since_ms(get_integer(component, "down_ms"), now_ms),
            text(component, "why"),
        )
        for component in maps(mapping(health).get("down"))
    ]


def _component_title(part: str) -> str:
    kind, _, connector = part.partition(":")
    title = _TITLES.get(kind, kind)
    return f"{title} for {connector}" if connector else title


def _since_ms(down_ms: int | None, now_ms: int) -> int | None:
    """Return the rounded time of the failure, so that repeated renderings are identical."""
    return None if down_ms is None else round((now_ms - down_ms) / 1000) * 1000
