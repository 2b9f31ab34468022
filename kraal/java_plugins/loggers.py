"""Default log levels of Java plugins: Kraal's level, so that plugins log INFO messages as in Connect."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

_KRAAL_LOGGER: Final = "kraal"
_TOP_LEVEL_PACKAGES: Final = frozenset({"com", "io", "net", "org"})
"""The top-level packages of libraries that plugins use."""
_KAFKA_PACKAGE: Final = "org.apache.kafka"
"""Kafka's runtime and clients, which keep the root level: at INFO they log all settings of each client."""
_KAFKA_PLUGIN_PACKAGES: Final = ("org.apache.kafka.connect.file", "org.apache.kafka.connect.mirror")


def set_plugin_log_levels(class_names: Iterable[str]) -> None:
    """Set the loggers of plugins, and of the libraries that they use, to Kraal's own level.

    Loggers with an explicit level keep it. `class_names` are the names of the plugins' classes.
    Source: connect-log4j2.yaml (Kafka 4.3.0), whose root logger has the level INFO.
    """
    level, root_level = (logging.getLogger(name).getEffectiveLevel() for name in (_KRAAL_LOGGER, None))
    if level >= root_level:
        return
    _set_default(_KAFKA_PACKAGE, root_level)
    top_packages = {name.partition(".")[0] for name in class_names if "." in name}
    for name in sorted((_TOP_LEVEL_PACKAGES | top_packages | set(_KAFKA_PLUGIN_PACKAGES)) - {_KRAAL_LOGGER}):
        _set_default(name, level)


def _set_default(name: str, level: int) -> None:
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(level)
