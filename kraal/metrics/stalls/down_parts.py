"""Components of a worker that tasks require and that are down, such as Spark or the JVM of Java plugins. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DownPart:
    """A component that is down."""

    name: str
    """`spark`, `lane`, `plugins-jvm`, or `plugins-jvm:CONNECTOR`."""
    since_s: float
    """Start of the outage, in monotonic seconds."""
    why: str
