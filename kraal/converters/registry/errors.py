"""What goes wrong with a registry, by the names that Java has for it."""

from __future__ import annotations

from typing import ClassVar

_KAFKA = "org.apache.kafka.common.errors"


class SerializationException(Exception):
    """Bytes or a schema are wrong, or the registry does not know or take a schema; trying again does not help."""

    java_class: ClassVar[str] = f"{_KAFKA}.SerializationException"


class RegistryRefuses(Exception):
    """The registry wants to know who asks, or does not let them. Not a fault of the record."""

    java_class: ClassVar[str] = f"{_KAFKA}.AuthenticationException"


class RegistryForbids(RegistryRefuses):
    """The registry knows who asks, and does not let them."""

    java_class: ClassVar[str] = f"{_KAFKA}.AuthorizationException"
