"""A base class for connectors that derive task configs from the connector config."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from typing_extensions import override

from kraal.plugins.api import Connector, ConnectorContext


class PassThroughConnector(Connector):
    """Base class of connectors that only check and store their config at startup."""

    def __init__(self) -> None:
        self._config: Mapping[str, str] = {}

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        del context
        self.check(config)
        self._config = config

    def check(self, config: Mapping[str, str]) -> None:
        """Raise ConfigInvalid or ValueError for errors that cannot be detected by validating single keys."""

    @override
    @abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]: ...
