"""Metric families of the latest proofs of delivery on a worker. Pure.

Connect has no such metrics, so their names start with `kraal_`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kraal.core.ids import ConnectorName
from kraal.metrics.text import Family, labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofMetrics:
    """The outcome of a connector's latest completed proof."""

    connector: ConnectorName
    ended_ms: int
    """Wall-clock milliseconds since the epoch."""
    is_undecided: bool
    """Whether the proof ended without a result; the counts are then 0."""
    missing: int = 0
    repeated: int = 0
    unexpected: int = 0


def proof_families(proofs: Sequence[ProofMetrics]) -> Iterator[Family]:
    """Yield the families."""
    names = [labels(("connector", proof.connector)) for proof in proofs]
    decided = [(name, proof) for name, proof in zip(names, proofs, strict=True) if not proof.is_undecided]
    yield Family(
        "kraal_delivery_missing_records",
        "gauge",
        "Records that the latest proof of a connector did not find in the target of a sink or the topics of a source.",
        [(name, proof.missing) for name, proof in decided],
    )
    yield Family(
        "kraal_delivery_repeated_records",
        "gauge",
        "Additional copies of records that the latest proof of a connector found.",
        [(name, proof.repeated) for name, proof in decided],
    )
    yield Family(
        "kraal_delivery_unexpected_records",
        "gauge",
        "Records in the target or the topics that the latest proof of a connector did not expect.",
        [(name, proof.unexpected) for name, proof in decided],
    )
    yield Family(
        "kraal_delivery_proof_undecided",
        "gauge",
        "1 if the latest proof of a connector ended without a result; the numbers of records are then absent.",
        [(name, int(proof.is_undecided)) for name, proof in zip(names, proofs, strict=True)],
    )
    yield Family(
        "kraal_delivery_proof_timestamp_seconds",
        "gauge",
        "Time at which the latest proof of a connector ended, in seconds since the epoch.",
        [(name, proof.ended_ms / 1000) for name, proof in zip(names, proofs, strict=True)],
    )
