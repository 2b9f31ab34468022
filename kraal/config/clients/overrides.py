"""The policies for client settings that connectors override.

Source: KIP-458; ConnectorClientConfigOverridePolicy (Kafka 4.3.0).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

_ENDING: Final = "ConnectorClientConfigOverridePolicy"
_PRINCIPAL_KEYS: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


class OverridePolicy(StrEnum):
    """The values of `connector.client.config.override.policy`."""

    ALL = "All"
    NONE = "None"
    PRINCIPAL = "Principal"

    @staticmethod
    def parse(text: str) -> OverridePolicy | None:
        """Return the policy of a name or of Java's class name; None when it is neither."""
        simple = text.rpartition(".")[2].removesuffix(_ENDING)
        return next((policy for policy in OverridePolicy if policy.value == simple), None)

    @staticmethod
    def of_class(name: str) -> OverridePolicy | None:
        """Return the policy of Java's class, by its full or its simple name."""
        simple = name.rpartition(".")[2]
        return OverridePolicy.parse(simple) if simple.endswith(_ENDING) else None

    def objection(self, key: str) -> str | None:
        """Return why the client's key may not be overridden; None when it may."""
        if self is OverridePolicy.ALL or (self is OverridePolicy.PRINCIPAL and key in _PRINCIPAL_KEYS):
            return None
        return f"The '{self}' policy does not allow '{key}' to be overridden in the connector configuration."
