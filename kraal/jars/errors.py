"""Errors of jars, Java and the embedded broker, with messages for operators."""

from __future__ import annotations

from collections.abc import Sequence

from kraal.core.errors import KraalError


class JavaMissing(KraalError):
    """Raised if no suitable Java is found. The message contains the reason, and the hint a remedy."""


class JarsUnavailable(KraalError):
    """Raised if jars cannot be downloaded or do not match the lock.

    `missing` contains the coordinates, including dependencies, that the Maven repository does not have.
    """

    def __init__(self, *args: object, hint: str = "", missing: Sequence[str] = ()) -> None:
        super().__init__(*args, hint=hint)
        self.missing = tuple(missing)


class BrokerError(KraalError):
    """Raised if the broker fails to start or stop, or was not started by Kraal."""
