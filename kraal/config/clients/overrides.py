"""Policies for client settings that connectors override.

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
_CLASS_SUFFIX: Final = "ConnectorClientConfigOverridePolicy"
_PRINCIPAL_KEYS: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


class OverridePolicy(StrEnum):
    """The built-in values of `connector.client.config.override.policy`."""

    ALL = "All"
    NONE = "None"
    PRINCIPAL = "Principal"
    ALLOWLIST = "Allowlist"
    """Allows no settings by itself; see `Allowlist`."""

    @staticmethod
    def parse(text: str) -> OverridePolicy | None:
        """Return the policy with this name or Kafka class name; None if there is no such policy."""
        package, _, simple_name = text.rpartition(".")
        name = simple_name.removesuffix(_CLASS_SUFFIX) if package in ("", _PACKAGE) else ""
        return next((policy for policy in OverridePolicy if policy.value == name), None)

    @staticmethod
    def parse_class(name: str) -> OverridePolicy | None:
        """Return the policy with this full or simple Kafka class name; None if there is no such policy."""
        simple_name = name.rpartition(".")[2]
        return OverridePolicy.parse(name) if simple_name.endswith(_CLASS_SUFFIX) else None

    def rejection_reason(self, key: str) -> str | None:
        """Return the reason why a client setting may not be overridden, or None if it may be."""
        if self is OverridePolicy.ALL or (self is OverridePolicy.PRINCIPAL and key in _PRINCIPAL_KEYS):
            return None
        return f"The '{self}' policy does not allow '{key}' to be overridden in the connector configuration."


@dataclass(frozen=True, slots=True)
class Allowlist:
    """The policy `Allowlist`, with the keys of `connector.client.config.override.allowlist`."""

    keys: frozenset[str]

    def rejection_reason(self, key: str) -> str | None:
        """Return the reason why a client setting may not be overridden, or None if it may be."""
        return None if key in self.keys else OverridePolicy.ALLOWLIST.rejection_reason(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideRequest:
    """The settings that a connector overrides for a client. Source: ConnectorClientConfigRequest (Kafka 4.4.0)."""

    name: str | None
    """The connector's name."""
    type: str
    """`source` or `sink`."""
    class_name: str | None
    """The connector's Java class; None for a connector in Python."""
    version: str | None
    """The version that the connector's config requires; None if the config does not require a version."""
    client: Client
    overrides: Mapping[str, str | None]
    """The settings, without the client's prefix."""


class PluginPolicy(Protocol):
    """A policy that a plugin implements, such as a Java class on `plugin.path`. Thread-safe."""

    def validate(self, request: OverrideRequest) -> Sequence[ConfigValue]:
        """Return the policy's decision for each setting. May block. Raises Unavailable, PluginFailed."""


WorkerPolicy = OverridePolicy | Allowlist | PluginPolicy
"""The policy of a worker."""
