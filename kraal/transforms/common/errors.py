"""Counterparts of the exceptions of Java's transforms, so that dead letters and stack traces name Java's classes."""

from __future__ import annotations

from typing import ClassVar

from kraal.plugins.model.records import DataException

_ERRORS = "org.apache.kafka.connect.errors"


class ConfigException(ValueError):
    """Raised if the config of a transform is invalid. Source: org.apache.kafka.common.config.ConfigException."""

    java_class: ClassVar[str] = "org.apache.kafka.common.config.ConfigException"


class ConnectException(Exception):
    """Raised for a schema that is not a timestamp type. Source: org.apache.kafka.connect.errors.ConnectException.

    Unlike in Java, not a base class of DataException.
    """

    java_class: ClassVar[str] = f"{_ERRORS}.ConnectException"


class SchemaBuilderException(DataException):
    """Raised if a schema cannot be built. Source: org.apache.kafka.connect.errors.SchemaBuilderException."""

    java_class: ClassVar[str] = f"{_ERRORS}.SchemaBuilderException"


class IllegalArgument(ValueError):
    """Raised for an invalid argument, such as an unknown name. Source: java.lang.IllegalArgumentException."""

    java_class: ClassVar[str] = "java.lang.IllegalArgumentException"


class IndexOutOfBounds(IndexError):
    """Raised for a reference to a missing group of a pattern. Source: java.lang.IndexOutOfBoundsException."""

    java_class: ClassVar[str] = "java.lang.IndexOutOfBoundsException"


class NullPointer(Exception):
    """Raised where Java's code dereferences null, with Java's message. Source: java.lang.NullPointerException."""

    java_class: ClassVar[str] = "java.lang.NullPointerException"
