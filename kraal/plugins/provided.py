"""A worker's plugins as its actors see them: make, tell apart, check."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from kraal.errors import KraalError
from kraal.ids import Config
from kraal.plugins.api import Connector
from kraal.plugins.framework import WorkerDefaults
from kraal.plugins.infos import ConfigInfos
from kraal.plugins.registry import Registry
from kraal.plugins.validate import validate_connector

log = logging.getLogger(__name__)

_LATER = (
    "errors.",
    "exactly.once.support",
    "header.converter",
    "offsets.storage.topic",
    "topic.creation.",
    "transaction.boundary",
)
"""Connect's keys that are checked, and not acted upon in this version (docs/compat.md)."""


@dataclass(frozen=True, slots=True)
class ProvidedPlugins:
    """The registry under one worker's defaults; any thread."""

    registry: Registry
    defaults: WorkerDefaults

    def make(self, config: Mapping[str, str]) -> Connector:
        """Make the connector object that `connector.class` names. Raises BadRequest for an unknown class."""
        later = sorted(key for key in config if key.startswith(_LATER))
        if later:
            log.warning("connector %s: these have no effect yet: %s", config.get("name"), ", ".join(later))
        return self.registry.connector_class(config["connector.class"])()

    def kind_of(self, config: Config) -> str:
        """Return `source`, `sink`, or `unknown` for a class that cannot be found or imported."""
        try:
            return self.registry.connector_class(config.get("connector.class") or "").kind
        except KraalError:
            return "unknown"

    def check(self, config: Config) -> ConfigInfos:
        """Validate a connector config. Raises BadRequest for an unknown class."""
        return validate_connector(self.registry, self.defaults, config)
