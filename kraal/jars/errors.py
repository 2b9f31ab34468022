"""Errors of jars, Java and the embedded broker; messages are for operators."""

from __future__ import annotations

from kraal.core.errors import KraalError


class JavaMissing(KraalError):
    """No suitable Java was found; the message contains what was found and what is required."""


class JarsUnavailable(KraalError):
    """Jars could not be downloaded, or do not match the lock."""


class BrokerError(KraalError):
    """The broker failed to start or stop, or was not started by Kraal."""
