"""What Java's transforms raise beside DataException, so that dead letters and traces name the same class."""

from __future__ import annotations

from typing import ClassVar

from kraal.plugins.records import DataException

_ERRORS = "org.apache.kafka.connect.errors"


class ConfigException(ValueError):
    """A transform's config is refused. Source: org.apache.kafka.common.config.ConfigException."""

    java_class: ClassVar[str] = "org.apache.kafka.common.config.ConfigException"


class ConnectException(Exception):
    """A transform cannot go on. Source: org.apache.kafka.connect.errors.ConnectException."""

    java_class: ClassVar[str] = f"{_ERRORS}.ConnectException"


class SchemaBuilderException(DataException):
    """A schema cannot be built so. Source: org.apache.kafka.connect.errors.SchemaBuilderException."""

    java_class: ClassVar[str] = f"{_ERRORS}.SchemaBuilderException"


class IllegalArgument(ValueError):
    """A name or a text that a transform was given means nothing. Source: java.lang.IllegalArgumentException."""

    java_class: ClassVar[str] = "java.lang.IllegalArgumentException"


class IndexOutOfBounds(IndexError):
    """A group that a regular expression has not. Source: java.lang.IndexOutOfBoundsException."""

    java_class: ClassVar[str] = "java.lang.IndexOutOfBoundsException"


class NullPointer(Exception):
    """Where Java's code falls over a null; the text is Java's. Source: java.lang.NullPointerException."""

    java_class: ClassVar[str] = "java.lang.NullPointerException"


class ClassCast(TypeError):
    """Where Java's code takes a value for one of another class. Source: java.lang.ClassCastException."""

    java_class: ClassVar[str] = "java.lang.ClassCastException"
