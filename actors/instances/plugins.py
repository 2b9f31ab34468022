"""Interface of the actors to a worker's plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kraal.config.variables import Resolved
    from kraal.core.ids import Config
    from kraal.plugins.api import Connector as Plugin
    from kraal.plugins.validation.infos import ConfigInfos


class Plugins(Protocol):
    """Plugin operations that actors need; any thread."""

    def make(self, config: Mapping[str, str]) -> Plugin:
        """Create the connector object that `connector.class` names. May raise any error, also for Connect's keys."""

    def connector_type(self, config: Config) -> str:
        """Return `source`, `sink`, or `unknown` if the class is not found; never raises."""

    def connector_version(self, config: Config) -> str | None:
        """Return the version of the plugin; None if its class is not found; never raises."""

    def tracks_offsets(self, config: Config) -> bool:
        """Return whether source tasks may request the offsets of their records; false if the class is not found."""

    def resolve(self, config: Config) -> Resolved:
        """Replace variables by their values; may block. Raises ProviderFailed, BadRequest."""

    def resolve_in_time(self, config: Config) -> Resolved:
        """Do the same for a request. Raises also Unavailable, if a config provider is away."""

    def check(self, config: Config) -> ConfigInfos:
        """Validate a connector config. Raises BadRequest for an unknown class, ProviderFailed."""
