"""Interface of the actors to a worker's plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kraal.config.variables import ResolvedConfig
    from kraal.core.ids import Config
    from kraal.plugins.api import Connector as Plugin
    from kraal.plugins.validation.infos import ConfigInfos


class Plugins(Protocol):
    """Plugin operations that actors need. Thread-safe."""

    def make(self, config: Mapping[str, str]) -> Plugin:
        """Create an object of the class in `connector.class`. May raise any exception."""

    def connector_type(self, config: Config) -> str:
        """Return `source`, `sink`, or `unknown` if the class is not found; never raises."""

    def connector_version(self, config: Config) -> str | None:
        """Return the version of the plugin; None if its class is not found; never raises."""

    def tracks_offsets(self, config: Config) -> bool:
        """Return whether source tasks may request the offsets of their records; false if the class is not found."""

    def resolve(self, config: Config) -> ResolvedConfig:
        """Replace variables by their values. May block. Raises ProviderFailed, BadRequest."""

    def resolve_with_timeout(self, config: Config) -> ResolvedConfig:
        """Resolve variables for a request, with a timeout. Also raises Unavailable if a config provider is down."""

    def check(self, config: Config) -> ConfigInfos:
        """Validate a connector config. Raises BadRequest for an unknown class, and ProviderFailed."""
