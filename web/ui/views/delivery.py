"""Proof of a connector's delivery: its state, numbers and differing positions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.ids import Json
from kraal.proof.result import RUNNING, format_not_compared, format_positions, format_scope
from web.ui.views.copy_as import Request
from web.ui.views.json_values import mapping

_STYLES: Final = {RUNNING: "restarting", "PROVED": "running", "DIFFERENT": "failed", "UNDECIDED": "paused"}
_UNKNOWN_FORMAT: Final = "The result of the proof has an unknown format."
_LABELS: Final = {
    "missing": "missing",
    "repeated": "repeated",
    "unexpected": "unexpected",
    "dead_letters": "dead letters",
    "tolerated": "tolerated errors",
    "dropped": "dropped by transforms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCount:
    """Number of rows of one kind."""

    label: str
    count: int
    positions: str
    """The positions of the first of these rows; empty if there are no positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofView:
    """The latest proof of a connector."""

    state: str
    """`RUNNING`, `PROVED`, `DIFFERENT` or `UNDECIDED`."""
    started_ms: int | None
    reason: str
    """Why there is no result; empty otherwise."""
    scope: str
    """Which records were compared, such as `up to orders-0@512`; empty without a result."""
    is_partial: bool
    """Whether only missing rows were searched."""
    not_compared: str
    """The first tables and columns that were not compared, with the reasons; empty if there are none."""
    counts: tuple[RowCount, ...]

    @property
    def is_running(self) -> bool:
        """Whether the proof is running."""
        return self.state == RUNNING

    @property
    def style(self) -> str:
        """The CSS class of the state, which is that of a task's state."""
        return _STYLES.get(self.state, "unknown")


def parse_delivery(response: Json) -> ProofView:
    """Return the proof from the response to `GET …/proof`."""
    fields = mapping(response)
    result = mapping(fields.get("result"))
    reason = str(fields.get("reason") or "")
    try:
        scope, counts = (format_scope(fields), _parse_counts(result)) if result else ("", [])
        not_compared = format_not_compared(result)
    except (KeyError, TypeError, AttributeError):
        scope, counts, not_compared, reason = "", [], "", _UNKNOWN_FORMAT
    return ProofView(
        state=str(fields.get("state", "")),
        started_ms=_parse_ms(fields.get("started_ms")),
        reason=reason,
        scope=scope,
        is_partial=result.get("partial") is True,
        not_compared=not_compared,
        counts=tuple(counts),
    )


def proof_request(name: str) -> Request:
    """Return the request that starts a proof."""
    return Request(method="POST", segments=("connectors", name, "proof"))


def _parse_counts(result: Mapping[str, Any]) -> list[RowCount]:
    counts: list[RowCount] = []
    for kind, label in _LABELS.items():
        value = result.get(kind)
        if isinstance(value, Mapping):
            counts.append(RowCount(label=label, count=int(value["rows"]), positions=format_positions(value)))
        elif isinstance(value, int):
            counts.append(RowCount(label=label, count=value, positions=""))
    return counts


def _parse_ms(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
