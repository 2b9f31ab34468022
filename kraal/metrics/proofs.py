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
    """The latest proof of a connector that has ended."""

    connector: ConnectorName
    ended_ms: int
    """Wall-clock milliseconds since the epoch."""
    is_undecided: bool
    """Whether the delivery could not be judged; the counts are then 0."""
    missing: int = 0
    repeated: int = 0
    unexpected: int = 0


def proof_families(proofs: Sequence[ProofMetrics]) -> Iterator[Family]:
    """Yield the families."""
    names = [labels(("connector", proof.connector)) for proof in proofs]
    decided = [(name, proof) for name, proof in zip(names, proofs, strict=True) if not proof.is_undecided]
    yield Family(
        "kraal_delivery_missing_rows",
        "gauge",
        "Rows that the latest proof of a connector did not find in the target of a sink or the topics of a source.",
        [(name, proof.missing) for name, proof in decided],
    )
    yield Family(
        "kraal_delivery_repeated_rows",
        "gauge",
        "Additional copies of rows that the latest proof of a connector found.",
        [(name, proof.repeated) for name, proof in decided],
    )
    yield Family(
        "kraal_delivery_unexpected_rows",
        "gauge",
        "Rows that the latest proof of a connector found and that no record explains.",
        [(name, proof.unexpected) for name, proof in decided],
    )
    yield Family(
        "kraal_delivery_proof_undecided",
        "gauge",
        "1 if the latest proof of a connector could not judge the delivery.",
        [(name, int(proof.is_undecided)) for name, proof in zip(names, proofs, strict=True)],
    )
    yield Family(
        "kraal_delivery_proof_timestamp_seconds",
        "gauge",
        "Time at which the latest proof of a connector ended, in seconds since the epoch.",
        [(name, proof.ended_ms / 1000) for name, proof in zip(names, proofs, strict=True)],
    )
