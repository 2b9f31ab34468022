"""Spark sessions with separate settings, which share the worker's SparkContext."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_settings(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session with additional settings. Raises Spark's error for an invalid value."""
    result = clone_session(session)
    for key, value in settings.items():
        result.conf.set(key, value)
    return result


def clone_session(session: SparkSession) -> SparkSession:
    """Return a new session with the settings of `session`."""
    result = session.newSession()
    defaults = result.conf.getAll
    for key, value in session.conf.getAll.items():
        if defaults.get(key) != value:
            result.conf.set(key, value)
    return result
