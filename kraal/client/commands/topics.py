"""`kraal topics`: show or reset the topics that connectors use; create the internal topics."""

from __future__ import annotations

from typing import Any

import click

from kraal.client.command import (
    CommandWithSubcommands,
    exit_with_status,
    for_each,
    names_argument,
    output_option,
    with_rest,
)
from kraal.client.lazy import LazyCommand
from kraal.client.output import emit, emit_table, say
from kraal.client.rest import Rest

_SUBCOMMANDS = {
    "create": LazyCommand("kraal.cli.topics", "create", "Create the missing internal topics of a worker."),
}


class TopicsCommand(CommandWithSubcommands):
    """Command that shows the connectors' topics, with a subcommand that creates the internal topics."""

    subcommands = _SUBCOMMANDS


@click.command(
    "topics",
    cls=TopicsCommand,
    short_help="Show or reset the topics that connectors use.",
    examples=(
        "kraal topics",
        "kraal topics orders-source --reset",
        "kraal topics create worker.properties --dry-run",
    ),
)
@names_argument
@click.option("--reset", "resets", is_flag=True, help="Reset the topics of the named connectors.")
@output_option
@with_rest
def topics(rest: Rest, names: tuple[str, ...], *, resets: bool, style: str) -> None:
    """Show the topics that connectors have used since they were created or their topics were reset (KIP-558).

    Without NAME, all connectors are shown.

    `kraal topics create` creates the missing internal topics of a worker; see its --help.
    """
    if resets:
        if not names:
            raise click.UsageError("--reset requires connector names.")

        def reset(name: str) -> None:
            rest.ask("PUT", "connectors", name, "topics", "reset")
            say(f"{name}: topics reset")

        exit_with_status(succeeded=for_each(names, reset))
        return
    topics_by_connector: dict[str, Any] = {}

    def add_topics(name: str) -> None:
        topics_by_connector.update(rest.get("connectors", name, "topics"))

    succeeded = for_each(names or rest.names(), add_topics)
    if style == "table":
        rows = (
            (name, topic) for name, entry in topics_by_connector.items() for topic in sorted(entry["topics"])
        )
        emit_table(("NAME", "TOPIC"), rows, "No topics.")
    else:
        emit(
            {name: {"topics": sorted(entry["topics"])} for name, entry in topics_by_connector.items()}, style
        )
    exit_with_status(succeeded=succeeded)
