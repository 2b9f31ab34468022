"""Kraal: a Kafka Connect runtime on pykka actors and Spark."""

from __future__ import annotations

__version__ = "0.2.0.dev0"
