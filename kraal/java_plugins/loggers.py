"""Default levels of the loggers of Java plugins: lines at INFO appear, as in Connect's own log."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

_OURS: Final = "kraal"
_TOPS: Final = frozenset({"com", "io", "net", "org"})
"""Where libraries of plugins have their packages."""
_RUNTIME: Final = "org.apache.kafka"
"""Kafka's runtime and clients, which print each client's settings at INFO; Kraal logs in their place."""
_PLUGINS_OF_KAFKA: Final = ("org.apache.kafka.connect.file", "org.apache.kafka.connect.mirror")


def show_plugin_lines(class_names: Iterable[str]) -> None:
    """Let lines of plugins through from Kraal's own level on; levels that are set already stay.

    `class_names`: those of the plugins; packages of libraries that usually come with them are included. Source:
    connect-log4j2.yaml (Kafka 4.3.0), where the root logger has INFO.
    """
    level, root_level = (logging.getLogger(name).getEffectiveLevel() for name in (_OURS, None))
    if level >= root_level:
        return
    _set_default(_RUNTIME, root_level)
    tops = {name.partition(".")[0] for name in class_names if "." in name}
    for name in sorted((_TOPS | tops | set(_PLUGINS_OF_KAFKA)) - {_OURS}):
        _set_default(name, level)


def _set_default(name: str, level: int) -> None:
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(level)
