"""The policies for client settings that connectors override.

Source: KIP-458, KIP-1188; ConnectorClientConfigOverridePolicy (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from kraal.config.clients.keys import Client
from kraal.config.key import ConfigValue

_PACKAGE: Final = "org.apache.kafka.connect.connector.policy"
_ENDING: Final = "ConnectorClientConfigOverridePolicy"
_PRINCIPAL_KEYS: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


class OverridePolicy(StrEnum):
    """The values of `connector.client.config.override.policy` that are not classes of `plugin.path`."""

    ALL = "All"
    NONE = "None"
    PRINCIPAL = "Principal"
    ALLOWLIST = "Allowlist"
    """Allows nothing by itself; see `Allowlist`."""

    @staticmethod
    def parse(text: str) -> OverridePolicy | None:
        """Return the policy of a name or of Kafka's class name; None when it is neither."""
        package, _, simple = text.rpartition(".")
        name = simple.removesuffix(_ENDING) if package in ("", _PACKAGE) else ""
        return next((policy for policy in OverridePolicy if policy.value == name), None)

    @staticmethod
    def of_class(name: str) -> OverridePolicy | None:
        """Return the policy of Java's class, by its full or its simple name."""
        simple = name.rpartition(".")[2]
        return OverridePolicy.parse(name) if simple.endswith(_ENDING) else None

    def objection(self, key: str) -> str | None:
        """Return why the client's key may not be overridden; None when it may."""
        if self is OverridePolicy.ALL or (self is OverridePolicy.PRINCIPAL and key in _PRINCIPAL_KEYS):
            return None
        return f"The '{self}' policy does not allow '{key}' to be overridden in the connector configuration."


@dataclass(frozen=True, slots=True)
class Allowlist:
    """The policy `Allowlist`, with the names of `connector.client.config.override.allowlist`."""

    keys: frozenset[str]

    def objection(self, key: str) -> str | None:
        """Return why the client's key may not be overridden; None when it may."""
        return None if key in self.keys else OverridePolicy.ALLOWLIST.objection(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideRequest:
    """The settings of one client that a connector overrides. Source: ConnectorClientConfigRequest (Kafka 4.4.0)."""

    name: str | None
    """Of the connector."""
    type: str
    """`source` or `sink`."""
    class_name: str | None
    """The connector's Java class; None if it is in Python."""
    version: str | None
    """The version that the connector's config requires."""
    client: Client
    overrides: Mapping[str, str | None]
    """Without the client's prefix."""


class ForeignPolicy(Protocol):
    """A policy that is not Kraal's own, such as a class of `plugin.path`. Any thread."""

    def validate(self, request: OverrideRequest) -> Sequence[ConfigValue]:
        """Return the policy's decision on each setting; may block. Raises Unavailable, PluginFailed."""


WorkerPolicy = OverridePolicy | Allowlist | ForeignPolicy
"""The policy of a worker."""
