"""Errors of schema registries, with the names of their Java classes."""

from __future__ import annotations

from typing import ClassVar

_KAFKA = "org.apache.kafka.common.errors"


class SerializationException(Exception):
    """Invalid bytes or schema, or a schema that is unknown to the registry or rejected by it; a retry does not help."""

    java_class: ClassVar[str] = f"{_KAFKA}.SerializationException"


class RegistryRefuses(Exception):
    """The registry rejects the client's credentials or permissions. Not an error of the record."""

    java_class: ClassVar[str] = f"{_KAFKA}.AuthenticationException"


class RegistryForbids(RegistryRefuses):
    """The registry authenticated the client but denies access."""

    java_class: ClassVar[str] = f"{_KAFKA}.AuthorizationException"
