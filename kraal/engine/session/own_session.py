"""Spark sessions with separate settings, which share the worker's SparkContext."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_settings(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session with additional settings. Raises Spark's error for an invalid value."""
    result = sibling(session)
    for key, value in settings.items():
        result.conf.set(key, value)
    return result


def sibling(session: SparkSession) -> SparkSession:
    """Return a new session with the same settings."""
    result = session.newSession()
    defaults = result.conf.getAll
    for key, value in session.conf.getAll.items():
        if defaults.get(key) != value:
            result.conf.set(key, value)
    return result
