"""What most connectors that ship are: their config, of which they make those of their tasks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from typing_extensions import override

from kraal.plugins.api import Connector, ConnectorContext


class KeptConfig(Connector):
    """Keeps its config; asks its context for nothing."""

    def __init__(self) -> None:
        self._config: Mapping[str, str] = {}

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        del context
        self.check(config)
        self._config = config

    def check(self, config: Mapping[str, str]) -> None:
        """Raise ConfigInvalid or ValueError for what the keys by themselves do not show to be wrong."""

    @override
    @abstractmethod
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]: ...
