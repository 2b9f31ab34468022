"""Errors of jars, Java and the embedded broker; messages are for operators."""

from __future__ import annotations

from collections.abc import Sequence

from kraal.core.errors import KraalError


class JavaMissing(KraalError):
    """No suitable Java was found; the message says what was found and what is required, the hint what to do."""


class JarsUnavailable(KraalError):
    """Jars could not be downloaded, or do not match the lock.

    `missing` are the coordinates that the Maven repository does not have, with dependencies.
    """

    def __init__(self, *args: object, hint: str = "", missing: Sequence[str] = ()) -> None:
        super().__init__(*args, hint=hint)
        self.missing = tuple(missing)


class BrokerError(KraalError):
    """The broker failed to start or stop, or was not started by Kraal."""
