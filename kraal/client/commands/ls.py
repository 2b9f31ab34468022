"""`kraal ls`: list connectors."""

from __future__ import annotations

import click

from kraal.client.command import (
    ClientCommand,
    output_option,
    with_rest,
)
from kraal.client.output import emit_statuses, say
from kraal.client.rest import Rest
from kraal.client.status_tables import (
    LIST_HEAD,
    list_rows,
)
from kraal.client.wait import fetch


@click.command(
    "ls",
    cls=ClientCommand,
    short_help="List connectors.",
    examples=(
        "kraal ls",
        "kraal ls -q | xargs -n1 kraal describe",
        "kraal ls -o json | jq -r '.[] | select(.connector.state == \"FAILED\") | .name'",
    ),
)
@output_option
@click.option("-q", "--quiet", is_flag=True, help="Print only names, one per line.")
@with_rest
def ls(rest: Rest, *, style: str, quiet: bool) -> None:
    """List connectors with type, state, number of running tasks, and worker."""
    if quiet:
        for name in rest.names():
            say(name)
        return
    emit_statuses(fetch(rest), style, LIST_HEAD, list_rows)
