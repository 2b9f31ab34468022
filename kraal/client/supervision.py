"""Automatic restarts, stalled tasks and write paths of batches for `kraal describe`. Pure functions.

Kraal workers add them to a status with `expand=supervision`, which Java workers ignore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kraal.client.status_tables import NONE, Status
from kraal.client.text import table
from kraal.core.printable import printable

_HEAD = ("TASK", "WORKER", "RESTARTS", "NEXT RESTART", "LAST BATCH", "NOTE")
_POLICY_TEXTS = {"task": "failed tasks are restarted", "all": "failed tasks and connectors are restarted"}


def supervision_lines(status: Status) -> list[str]:
    """Return lines to print; empty if no instance is supervised or stalled or has been restarted automatically."""
    supervision: Mapping[str, Any] = status.get("supervision") or {}
    parts: Sequence[Mapping[str, Any]] = [
        *([{"id": NONE, **supervision["connector"]}] if "connector" in supervision else []),
        *supervision.get("tasks", ()),
    ]
    policy: Mapping[str, Any] = supervision.get("policy") or {}
    policy_text = _POLICY_TEXTS.get(str(policy.get("restart")))
    listed_parts = [
        part for part in parts if part.get("supervised") or part.get("restarts") or part.get("stalled")
    ]
    if policy_text is None and not listed_parts:
        return []
    lines = [_head(policy_text, policy), *(f"  {line}" for line in table(_HEAD, map(_row, listed_parts)))]
    if silent_workers := supervision.get("silent"):
        lines.append(f"  no report from {printable(', '.join(map(str, silent_workers)))}")
    return lines


def batch_lines(status: Status) -> list[str]:
    """Return lines with the write path of each task's latest batch; empty if unavailable."""
    tasks: Sequence[Mapping[str, Any]] = (status.get("supervision") or {}).get("tasks", ())
    rows = [
        (str(task.get("id")), printable(str(task["last_batch_way"])))
        for task in tasks
        if task.get("last_batch_way")
    ]
    return ["Batches:", *(f"  {line}" for line in table(("TASK", "LATEST BATCH"), rows))] if rows else []


def _head(policy_text: str | None, policy: Mapping[str, Any]) -> str:
    if policy_text is None:
        return "Supervision: failed instances are not restarted automatically."
    window_s = _to_number(policy.get("window_ms")) / 1000
    return f"Supervision: {policy_text}, at most {policy.get('max')} times within {window_s:g} s."


def _row(part: Mapping[str, Any]) -> tuple[str, ...]:
    note = str(part.get("why") or "")
    if part.get("stalled"):
        step_ms, cause = part.get("step_ms"), part.get("stall_cause")
        since = "" if step_ms is None else f" for {_format_seconds(step_ms)}"
        note = f"stalled: {printable(str(cause))}" if cause else f"stalled: no progress{since}"
    return (
        str(part.get("id")),
        str(part.get("worker_id")),
        str(part.get("restarts")),
        _format_time(part.get("next_restart_ms")),
        f"{_format_seconds(part['last_batch_age_ms'])} ago"
        if part.get("last_batch_age_ms") is not None
        else NONE,
        note,
    )


def _format_seconds(ms: object) -> str:
    return f"{_to_number(ms) / 1000:.0f} s"


def _format_time(ms: object) -> str:
    if ms is None:
        return NONE
    try:
        return datetime.fromtimestamp(_to_number(ms) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return str(ms)


def _to_number(value: object) -> float:
    return value if isinstance(value, int | float) else 0.0
