"""`kraal assignments`: show workers with their static and current assignments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from kraal.client.command import ClientCommand, output_option, with_rest
from kraal.client.output import emit, emit_table, say
from kraal.client.rest import RequestRejected, Rest
from kraal.core.errors import KraalError

_MS_PER_SECOND = 1000


@click.command(
    "assignments",
    cls=ClientCommand,
    short_help="Show workers and the connectors and tasks assigned to them.",
    examples=(
        "kraal assignments",
        "kraal assignments -o json",
    ),
)
@output_option
@with_rest
def assignments(rest: Rest, *, style: str) -> None:
    """Show the workers of the cluster, their static assignments (KIP-987), connectors and tasks.

    Also shows why connectors and tasks are unassigned, and the causes of the last ten rebalances (unknown for those
    that another worker led). Any worker accepts the request and forwards it to the leader.
    """
    try:
        response: dict[str, Any] = rest.get("admin", "assignments")
    except RequestRejected as error:
        if error.is_unknown_endpoint:
            raise KraalError(
                f"{error}; this worker does not serve /admin/assignments on this listener: it is not a Kraal "
                "worker, or admin.listeners is set"
            ) from error
        raise
    if style != "table":
        emit(response, style)
        return
    emit_table(("WORKER", "KIND", "STATIC", "RUNNING"), _worker_rows(response["workers"]), "No workers.")
    if response["waiting"]:
        say("")
        emit_table(("WAITING", "REASON"), _waiting_rows(response["waiting"]), "")
    for line in _summary_lines(response):
        say(f"\n{line}")
    if earlier_rebalances := response.get("rebalances", [])[1:]:
        say("")
        emit_table(("EARLIER", "GENERATION", "LEADER", "REASON"), _earlier_rows(earlier_rebalances), "")


def _worker_rows(workers: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for worker in workers:
        static_instances = None
        if worker["kind"] == "static":
            static_instances = [*worker["static_connectors"], *worker["static_tasks"]]
        yield (
            str(worker["url"]),
            worker["kind"],
            "-" if static_instances is None else ", ".join(static_instances),
            ", ".join([*worker["connectors"], *worker["tasks"]]) or "-",
        )


def _waiting_rows(instances: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for instance in instances:
        task = "" if instance["task"] is None else f"-{instance['task']}"
        yield f"{instance['connector']}{task}", instance["reason"]


def _earlier_rows(rebalances: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    for rebalance in rebalances:
        yield (
            _format_time(rebalance["completed_ms"]),
            str(rebalance["generation"]),
            rebalance["leader"] or "-",
            rebalance["reason"] or "unknown: another worker was the leader",
        )


def _format_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / _MS_PER_SECOND, UTC).isoformat(" ", "seconds")


def _summary_lines(response: Mapping[str, Any]) -> Iterator[str]:
    if response["note"]:
        yield response["note"]
    last_rebalance = response["rebalance"]
    if last_rebalance is None:
        return
    delay = (
        f"; the next rebalance follows within {last_rebalance['delay_ms'] / _MS_PER_SECOND:g} s to reassign lost work"
        if last_rebalance["delay_ms"]
        else ""
    )
    yield (
        f"Last rebalance: generation {response['generation']} of protocol {response['protocol']}, "
        f"{_format_time(last_rebalance['completed_ms'])}, led by {response['leader']}\n"
        f"{last_rebalance['reason']}{delay}"
    )
