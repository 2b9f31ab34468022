"""A runner of proofs whose results the test sets."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from kraal.config.variables import ResolvedConfig
from kraal.core.ids import Config, ConnectorName
from kraal.core.offsets import TopicPartition
from kraal.engine.api import ProofRequest, TaskSpec
from kraal.plugins.api import NotComparable
from kraal.proof.differences import Differences
from kraal.proof.result import ProofResult, SkippedRecords
from kraal.worker.proofs import Proofs

ORDERS = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000


@dataclass
class FakeProof:
    """A proof that ends when `may_end` is set."""

    requests: list[ProofRequest] = field(default_factory=list)
    differences: Differences = field(default_factory=Differences)
    error: Exception | None = None
    may_end: threading.Event = field(default_factory=threading.Event)
    is_cancelled: bool = False

    def run(self, request: ProofRequest) -> ProofResult:
        self.requests.append(request)
        assert self.may_end.wait(30)
        if self.is_cancelled:
            raise NotComparable("the proof was cancelled")
        if self.error is not None:
            raise self.error
        return ProofResult(
            ranges={ORDERS: (0, 7)},
            expected_count=7,
            stored_count=7,
            differences=self.differences,
            skipped=SkippedRecords(dead_letters=1),
        )

    def cancel(self) -> None:
        self.is_cancelled = True
        self.may_end.set()


class _GroupOffsets:
    def read(
        self, connector: ConnectorName, config: Config, *, timeout_s: float
    ) -> dict[TopicPartition, int]:
        del connector, config, timeout_s
        return {ORDERS: 7}


def make_proofs(proof: FakeProof, specs: list[TaskSpec] | None = None) -> Proofs:
    """Return the runner of a worker without variables in its configs."""

    def open_proof(spec: TaskSpec) -> Any:
        if specs is not None:
            specs.append(spec)
        return proof

    offsets: Any = _GroupOffsets
    return Proofs(
        open_proof,
        lambda config: ResolvedConfig.of(config, {}),
        offsets,
        lambda _: [({"filename": "orders.txt"}, {"position": 7})],
        lambda: NOW_MS,
    )
