"""What the actors need of a worker's plugins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kraal.config.variables import Resolved
    from kraal.ids import Config
    from kraal.plugins.api import Connector as Plugin
    from kraal.plugins.infos import ConfigInfos


class Plugins(Protocol):
    """What the actors need of the plugins; any thread."""

    def make(self, config: Mapping[str, str]) -> Plugin:
        """Make the connector object that `connector.class` names. Raises what it likes."""

    def kind_of(self, config: Config) -> str:
        """Return `source`, `sink`, or `unknown` for a class that cannot be found; never raises."""

    def resolve(self, config: Config) -> Resolved:
        """Put values in the places of variables; may block. Raises ProviderFailed."""

    def check(self, config: Config) -> ConfigInfos:
        """Validate a connector config. Raises BadRequest for an unknown class, ProviderFailed."""
