"""`kraal status`: show the status of connectors and tasks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from functools import partial

import click

from kraal.client.command import (
    ClientCommand,
    exit_with_status,
    for_each,
    interval_option,
    make_output_option,
    names_argument,
    with_rest,
)
from kraal.client.output import NO_CONNECTORS, emit_statuses, emit_table
from kraal.client.rest import Rest
from kraal.client.status_tables import (
    STATUS_HEAD,
    Status,
    Statuses,
    status_rows,
)
from kraal.client.terminal.screen import Screen
from kraal.client.wait import fetch, fetch_one
from kraal.client.watch import Watch
from kraal.client.wide_status import WIDE_HEAD, fetch_proofs, fetch_verdicts, wide_rows
from kraal.core.printable import join_lines


@click.command(
    "status",
    cls=ClientCommand,
    short_help="Show the status of connectors and tasks.",
    examples=(
        "kraal status",
        "kraal status -o wide",
        "kraal status orders-source --watch",
    ),
)
@names_argument
@make_output_option("table", "wide", "json", "yaml")
@click.option("-w", "--watch", "watches", is_flag=True, help="Keep watching until Ctrl-C.")
@interval_option("Polling interval of --watch.")
@with_rest
def status(rest: Rest, names: tuple[str, ...], *, style: str, watches: bool, interval: float) -> None:
    """Show connectors and their tasks: state, worker, and the root cause of a failure.

    Without NAME, all connectors are shown. -o wide adds the number of written and skipped records of each task since
    its start, the backlog of sinks, the number of breaks and uncounted ranges in the ledger, and the latest proof of
    delivery. With --watch, a terminal shows a table that is updated in place; a file or pipe receives one line per
    current state and one per change (with -o json, one JSON object per line).
    """
    poll = partial(_find_statuses, rest, names)
    if watches:
        _watch(rest, Watch(poll, rest.clock.pause, interval), style)
        return
    expand = "progress" if style == "wide" else None
    if not names:
        _emit(rest, fetch(rest, expand=expand), style)
        return
    statuses_by_name: dict[str, Status | None] = {}
    succeeded = for_each(
        names, lambda name: statuses_by_name.update({name: _fetch_existing(rest, name, expand)})
    )
    if statuses_by_name:
        _emit(rest, statuses_by_name, style)
    exit_with_status(succeeded=succeeded)


def _emit(rest: Rest, statuses: Statuses, style: str) -> None:
    if style == "wide":
        rows = wide_rows(statuses, fetch_proofs(rest, statuses), fetch_verdicts(rest, statuses))
        emit_table(WIDE_HEAD, rows, NO_CONNECTORS)
    else:
        emit_statuses(statuses, style, STATUS_HEAD, status_rows)


def _fetch_existing(rest: Rest, name: str, expand: str | None) -> Status | None:
    """Return a connector's status; None if it has none yet. Raises RequestRejected if the connector does not exist."""
    connector_status = fetch_one(rest, name, expand=expand)
    if connector_status is None:
        rest.get("connectors", name)
    return connector_status


def _find_statuses(rest: Rest, names: Sequence[str]) -> Statuses:
    """Return the statuses of the named connectors, or of all; None for a connector without a status."""
    return {name: fetch_one(rest, name) for name in names} if names else fetch(rest)


def _watch(rest: Rest, watch: Watch, style: str) -> None:
    if style in {"yaml", "wide"}:
        raise click.UsageError(f"--watch does not support -o {style}; use table or json.")
    try:
        if style == "table" and sys.stdout.isatty():
            screen = Screen(lambda text: click.echo(text, nl=False), shutil.get_terminal_size)
            watch.on_screen(screen, rest.target.url)
        else:
            watch.as_lines(_print_and_flush, _warn, as_json=style == "json")
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            click.echo()


def _print_and_flush(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()


def _warn(text: str) -> None:
    click.echo(join_lines(text), err=True)
