"""Errors of Java's transforms other than DataException, so that dead letters and traces name the same classes."""

from __future__ import annotations

from typing import ClassVar

from kraal.plugins.model.records import DataException

_ERRORS = "org.apache.kafka.connect.errors"


class ConfigException(ValueError):
    """A transform's config is invalid. Source: org.apache.kafka.common.config.ConfigException."""

    java_class: ClassVar[str] = "org.apache.kafka.common.config.ConfigException"


class ConnectException(Exception):
    """A transform fails. Source: org.apache.kafka.connect.errors.ConnectException."""

    java_class: ClassVar[str] = f"{_ERRORS}.ConnectException"


class SchemaBuilderException(DataException):
    """A schema cannot be built. Source: org.apache.kafka.connect.errors.SchemaBuilderException."""

    java_class: ClassVar[str] = f"{_ERRORS}.SchemaBuilderException"


class IllegalArgument(ValueError):
    """An invalid argument, such as an unknown name. Source: java.lang.IllegalArgumentException."""

    java_class: ClassVar[str] = "java.lang.IllegalArgumentException"


class IndexOutOfBounds(IndexError):
    """A reference to a group that a regular expression does not have. Source: java.lang.IndexOutOfBoundsException."""

    java_class: ClassVar[str] = "java.lang.IndexOutOfBoundsException"


class NullPointer(Exception):
    """Java's code dereferences null; the text is Java's. Source: java.lang.NullPointerException."""

    java_class: ClassVar[str] = "java.lang.NullPointerException"
