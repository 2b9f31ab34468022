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
    """The values that a provider returns. Keys without a value are absent."""

    data: Mapping[str, str] = field(default_factory=dict, repr=False)
    ttl_ms: int | None = None
    """Milliseconds for which the values are valid; None for unlimited.

    When the values expire, the connector is restarted unless `config.action.reload` is `none`.
    """


class ConfigProvider(ABC):
    """A config provider, created and configured once for each name in `config.providers`. `get` must be thread-safe."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    """The provider's parameters, used only for the documentation. `configure` must validate the parameters."""

    def configure(self, params: Mapping[str, str]) -> None:  # noqa: B027 - optional
        """Apply the parameters. Any exception aborts the worker's startup.

        The keys of `params` do not include the prefix `config.providers.<name>.param.`.
        """

    @abstractmethod
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        """Return the values of keys at a path, which is empty if the variable has no path.

        May block: only operations on the config that contains the variable wait for the result. An exception fails the
        connector or task, or becomes the response to a validation request.
        """

    def close(self) -> None:  # noqa: B027 - optional
        """Release resources. Called once, when the worker stops."""
