"""The base class of config providers, which supply the values of variables in configs.

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
    """The values that a provider returned, without unknown keys."""

    data: Mapping[str, str] = field(default_factory=dict, repr=False)
    ttl_ms: int | None = None
    """How long the values are valid. Afterwards, the connector is restarted with new values. None for unlimited."""


class ConfigProvider(ABC):
    """Created and configured once for each name in `config.providers`. `get` must be thread-safe."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    """The provider's parameters, for the manual; `configure` checks them itself."""

    def configure(self, params: Mapping[str, str]) -> None:  # noqa: B027 - having none is usual
        """Apply the parameters, without `config.providers.<name>.param.`. Any exception aborts the worker's startup."""

    @abstractmethod
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        """Return the values of keys at a path, which is empty if the variable has no path.

        May block: only operations on this config wait for the result. An exception fails the connector or task, or
        becomes the response to a validation request.
        """

    def close(self) -> None:  # noqa: B027 - having nothing to close is usual
        """Release resources. Called once, when the worker stops."""
