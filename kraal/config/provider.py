"""What a config provider is: it keeps values for configs that name them by variables.

Plugin authors import these names from `kraal.plugins.api`. Source: org.apache.kafka.common.config.provider.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from kraal.config.key import ConfigDef


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigData:
    """What a provider found; keys that it does not know are left out."""

    data: Mapping[str, str] = field(default_factory=dict, repr=False)
    ttl_ms: int | None = None
    """The values hold for so long: then the connector is started again with new ones. None: for ever."""


class ConfigProvider(ABC):
    """Made and configured once for each name in `config.providers`. `get` may be called by several threads at once."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    """Its parameters, for the manual; `configure` checks them itself."""

    def configure(self, params: Mapping[str, str]) -> None:  # noqa: B027 - having none is usual
        """Take the parameters, `config.providers.<name>.param.` removed. Raises what it likes: the start ends."""

    @abstractmethod
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        """Return the values of keys at a path, which is empty where the variable has none.

        May block: whoever waits for the config waits, and nobody else. Raises what it likes: the connector or the
        task fails, a validation is answered with the error.
        """

    def close(self) -> None:  # noqa: B027 - having nothing to close is usual
        """Let go of what it holds; called once, when the worker ends."""
