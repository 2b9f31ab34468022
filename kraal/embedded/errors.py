"""What can go wrong around the embedded broker; each message is one sentence for an operator."""

from __future__ import annotations

from kraal.errors import KraalError


class JavaMissing(KraalError):
    """No Java that Spark and Kafka can run on; the message says what was found and what is needed."""


class JarsUnavailable(KraalError):
    """Jars could not be fetched, or are not what the lock says."""


class BrokerError(KraalError):
    """The broker did not start or stop, or is not ours to touch."""
