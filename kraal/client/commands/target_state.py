"""`kraal pause`, `resume` and `stop`: set the target state of connectors.

The three commands share a module because each is a thin wrapper around one PUT request.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from kraal.client.commands.command import (
    ClientCommand,
    all_option,
    asking,
    chosen,
    end,
    for_each,
    names_argument,
)
from kraal.client.commands.wait_options import wait_for, wait_options
from kraal.client.output import say
from kraal.client.rest import Rest


def set_states(
    rest: Rest, names: Sequence[str], path: str, *, done: str, wanted: str, waits: bool, timeout_s: float
) -> None:
    """Send the PUT request for each connector, then wait if requested. Exits with code 1 if anything failed."""
    changed: list[str] = []

    def put(name: str) -> None:
        rest.ask("PUT", "connectors", name, path)
        changed.append(name)
        say(f"{name} {done}")

    well = for_each(names, put)
    waited = not waits or wait_for(rest, dict.fromkeys(changed, wanted), timeout_s=timeout_s)
    end(well=well and waited)


@click.command(
    "pause",
    cls=ClientCommand,
    short_help="Pause connectors.",
    examples=("kraal pause orders-source orders-sink --wait",),
)
@names_argument
@all_option
@wait_options
@asking
def pause(rest: Rest, names: tuple[str, ...], *, everything: bool, waits: bool, timeout_s: float) -> None:
    """Pause connectors: their tasks stay allocated but do no work (KIP-52).

    Connectors stay paused when workers restart.
    """
    names_meant = chosen(rest, names, everything=everything)
    set_states(
        rest, names_meant, "pause", done="will pause", wanted="PAUSED", waits=waits, timeout_s=timeout_s
    )


@click.command(
    "resume",
    cls=ClientCommand,
    short_help="Resume paused or stopped connectors.",
    examples=("kraal resume --all --wait",),
)
@names_argument
@all_option
@wait_options
@asking
def resume(rest: Rest, names: tuple[str, ...], *, everything: bool, waits: bool, timeout_s: float) -> None:
    """Resume paused or stopped connectors."""
    names_meant = chosen(rest, names, everything=everything)
    set_states(
        rest, names_meant, "resume", done="will run", wanted="RUNNING", waits=waits, timeout_s=timeout_s
    )


@click.command(
    "stop",
    cls=ClientCommand,
    short_help="Stop connectors and shut down their tasks.",
    examples=("kraal stop orders-source --wait && kraal offsets reset orders-source",),
)
@names_argument
@all_option
@wait_options
@asking
def stop(rest: Rest, names: tuple[str, ...], *, everything: bool, waits: bool, timeout_s: float) -> None:
    """Stop connectors and shut down their tasks (KIP-875).

    The offsets of stopped connectors can be altered. `kraal resume` starts the connectors again.
    """
    names_meant = chosen(rest, names, everything=everything)
    set_states(
        rest, names_meant, "stop", done="will stop", wanted="STOPPED", waits=waits, timeout_s=timeout_s
    )
