"""Parts of a worker that tasks need and that are down, such as Spark or the JVM of Java plugins. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DownPart:
    """A part that is down."""

    name: str
    """`spark`, `lane`, `plugins-jvm`, or `plugins-jvm:CONNECTOR`."""
    since_s: float
    """Since when, in monotonic seconds."""
    why: str
