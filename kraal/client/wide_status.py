"""`kraal status -o wide`: statuses with metrics of tasks, the ledger's verdict and the latest proof of delivery."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from kraal.client.rest import RequestRejected, Rest
from kraal.client.status_tables import NONE, Statuses, instances
from kraal.ledger.texts import format_verdict

WIDE_HEAD: Final = (
    "NAME", "TASK", "STATE", "WORKER", "RECORDS", "SKIPPED", "BACKLOG", "LEDGER", "PROOF", "TRACE",
)  # fmt: skip
_MS_PER_SECOND: Final = 1000

Proofs = Mapping[str, Mapping[str, Any] | None]
"""The responses to `GET /connectors/{c}/proof` by connector; None for a connector without a proof."""


def fetch_proofs(rest: Rest, names: Iterable[str]) -> Proofs:
    """Return the latest proof of each connector. Raises NoResponse, Unreachable."""
    return {name: _fetch_proof(rest, name) for name in names}


def _fetch_proof(rest: Rest, name: str) -> Mapping[str, Any] | None:
    try:
        proof: Mapping[str, Any] = rest.get("connectors", name, "proof")
    except RequestRejected:  # there is no proof, or the worker runs none
        return None
    return proof


Verdicts = Mapping[str, str]
"""The verdict of the ledger by connector; none for a connector without counted batches."""


def fetch_verdicts(rest: Rest, names: Iterable[str]) -> Verdicts:
    """Return the verdict of the ledger on each connector; none without a ledger. Raises NoResponse, Unreachable."""
    verdicts: dict[str, str] = {}
    for name in names:
        try:
            totals = rest.get("connectors", name, "ledger")
        except RequestRejected as error:
            if error.is_unknown_endpoint:
                break
            continue
        if totals["tasks"]:
            verdicts[name] = format_verdict(
                break_count=sum(task["break_count"] for task in totals["tasks"]),
                uncounted_count=sum(each["uncounted_count"] for each in totals["partitions"]),
            )
    return verdicts


def wide_rows(statuses: Statuses, proofs: Proofs, verdicts: Verdicts) -> Iterator[tuple[str, ...]]:
    """Yield a row per connector and task; `statuses` have the fields of `expand=progress`, except from Java workers."""
    for name, status in statuses.items():
        if status is None:
            yield (name, *[NONE] * (len(WIDE_HEAD) - 2), "no status yet")
            continue
        progress = {str(part["id"]): part for part in status.get("progress", {}).get("tasks", ())}
        for (_, task), instance in instances({name: status}).items():
            metrics = progress.get(task, {})
            is_connector = task == NONE
            proof = _format_proof(proofs.get(name)) if is_connector else NONE
            verdict = verdicts.get(name, NONE) if is_connector else NONE
            skipped = metrics.get("errors", {}).get("skipped")
            numbers = (metrics.get("records_total"), skipped, metrics.get("backlog_records"))
            yield (
                *(name, task, instance.state, instance.worker, *map(_format_number, numbers)),
                *(verdict, proof, instance.trace),
            )


def _format_number(number: int | None) -> str:
    return NONE if number is None else f"{number:,}"


def _format_proof(proof: Mapping[str, Any] | None) -> str:
    if proof is None:
        return NONE
    started = datetime.fromtimestamp(proof["started_ms"] / _MS_PER_SECOND, UTC)
    return f"{proof['state']} {started:%Y-%m-%d %H:%M} UTC"
