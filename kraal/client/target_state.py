"""`kraal pause`, `kraal resume`, `kraal stop`: set the target state of connectors, with one PUT request for each."""

from __future__ import annotations

import click

from kraal.client.command import (
    ClientCommand,
    all_option,
    exit_with_status,
    for_each,
    names_argument,
    select_names,
    with_rest,
)
from kraal.client.output import say
from kraal.client.rest import Rest
from kraal.client.wait_options import wait_for, wait_options


def target_state_command(
    verb: str, *, state: str, result_text: str, short_help: str, help_text: str, example: str
) -> click.Command:
    """Return a command that sends `PUT /connectors/NAME/{verb}`, prints `result_text` and can wait for `state`."""

    @click.command(verb, cls=ClientCommand, short_help=short_help, help=help_text, examples=(example,))
    @names_argument
    @all_option
    @wait_options
    @with_rest
    def command(
        rest: Rest, names: tuple[str, ...], *, everything: bool, waits: bool, timeout_s: float
    ) -> None:
        changed_names: list[str] = []

        def put(name: str) -> None:
            rest.ask("PUT", "connectors", name, verb)
            changed_names.append(name)
            say(f"{name} {result_text}")

        succeeded = for_each(select_names(rest, names, everything=everything), put)
        is_reached = not waits or wait_for(rest, dict.fromkeys(changed_names, state), timeout_s=timeout_s)
        exit_with_status(succeeded=succeeded and is_reached)

    return command


pause = target_state_command(
    "pause",
    state="PAUSED",
    result_text="will pause",
    short_help="Pause connectors.",
    help_text=(
        "Pause connectors: their tasks stay allocated but do no work (KIP-52).\n\n"
        "Connectors stay paused when workers restart."
    ),
    example="kraal pause orders-source orders-sink --wait",
)


resume = target_state_command(
    "resume",
    state="RUNNING",
    result_text="will run",
    short_help="Resume paused or stopped connectors.",
    help_text="Resume paused or stopped connectors.",
    example="kraal resume --all --wait",
)


stop = target_state_command(
    "stop",
    state="STOPPED",
    result_text="will stop",
    short_help="Stop connectors and shut down their tasks.",
    help_text=(
        "Stop connectors and shut down their tasks (KIP-875).\n\n"
        "The offsets of stopped connectors can be altered. `kraal resume` starts the connectors again."
    ),
    example="kraal stop orders-source --wait && kraal offsets reset orders-source",
)
