"""Tests for the metrics of proofs of delivery."""

from __future__ import annotations

from kraal.core.ids import ConnectorName
from kraal.metrics.proofs import ProofMetrics, proof_families
from kraal.metrics.text import render


def test_undecided_proofs_have_no_counts() -> None:
    proofs = [
        ProofMetrics(connector=ConnectorName("a"), ended_ms=1_700_000_000_500, is_undecided=False, missing=4),
        ProofMetrics(connector=ConnectorName("b"), ended_ms=1_700_000_001_000, is_undecided=True),
    ]
    lines = [line for family in proof_families(proofs) for line in render(family).splitlines()]
    assert [line for line in lines if not line.startswith("#")] == [
        'kraal_delivery_missing_records{connector="a"} 4',
        'kraal_delivery_repeated_records{connector="a"} 0',
        'kraal_delivery_unexpected_records{connector="a"} 0',
        'kraal_delivery_proof_undecided{connector="a"} 0',
        'kraal_delivery_proof_undecided{connector="b"} 1',
        'kraal_delivery_proof_timestamp_seconds{connector="a"} 1700000000.5',
        'kraal_delivery_proof_timestamp_seconds{connector="b"} 1700000001.0',
    ]
