"""The key for repeated proofs of delivery. It is specific to Kraal; all connectors have it."""

from __future__ import annotations

from typing import Final

from kraal.config.checks import at_least, unless_null
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Width
from kraal.config.values import parse_value
from kraal.core.ids import Config

PROOF_INTERVAL: Final = "proof.interval.ms"
MIN_INTERVAL_MS: Final = 60_000
MAX_TIME_SHARE: Final = 0.1
"""Maximum share of the time that the proofs of a connector may take."""

PROOF: Final = ConfigDef([
    Key(
        name=PROOF_INTERVAL, type=ConfigType.LONG, default=None,
        validator=unless_null(at_least(MIN_INTERVAL_MS)), importance=Importance.LOW,
        doc="Interval at which the worker that runs the connector proves its delivery, as `kraal prove` does, in "
        "milliseconds. After a proof that took more than a tenth of the interval, the next proof starts ten times this "
        "duration after its start. Default: the worker proves the delivery only on request.",
        group="Proof of Delivery", order=0, width=Width.SHORT, display_name="Proof Interval", source="Kraal",
    ),
])  # fmt: skip
"""Keys of connectors. Connect does not have these keys, so responses contain only the keys that are in the config."""


def proof_keys(config: Config) -> list[Key]:
    """Return the keys of proofs that are in a connector's config."""
    return [key for key in PROOF if key.name in config]


def parse_proof_interval(config: Config) -> float | None:
    """Return the interval in seconds; None if the key is absent or invalid. Never raises."""
    if PROOF_INTERVAL not in config:
        return None
    try:
        value = parse_value(PROOF_INTERVAL, config.get(PROOF_INTERVAL), ConfigType.LONG)
    except ValueError:
        return None
    return value / 1000 if isinstance(value, int) and value >= MIN_INTERVAL_MS else None
