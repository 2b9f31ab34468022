"""`kraal wait`: wait until connectors reach a state."""

from __future__ import annotations

import click

from kraal.client.command import (
    ClientCommand,
    all_option,
    exit_with_status,
    names_argument,
    select_names,
    with_rest,
)
from kraal.client.rest import Rest
from kraal.client.status_tables import RUNNING, STOPPED
from kraal.client.wait import DELETED, NO_LAG, SETTLE_S
from kraal.client.wait_options import timeout_option, wait_for


@click.command(
    "wait",
    cls=ClientCommand,
    short_help="Wait until connectors reach a state.",
    examples=(
        "kraal wait orders-source orders-sink",
        "kraal stop --all && kraal wait --all --for STOPPED",
        "kraal wait orders-sink --for no-lag",
        "kraal delete orders-source && kraal wait orders-source --for DELETED --timeout 30",
    ),
)
@names_argument
@all_option
@click.option(
    "--for",
    "state",
    type=click.Choice([RUNNING, "PAUSED", STOPPED, DELETED, "no-lag"], case_sensitive=False),
    default=RUNNING,
    show_default=True,
    help="State of the connectors and all their tasks; no-lag: sinks have committed the end offsets.",
)
@timeout_option("Timeout for all connectors together.")
@with_rest
def wait(rest: Rest, names: tuple[str, ...], *, everything: bool, state: str, timeout_s: float) -> None:
    """Wait until connectors and all their tasks reach a state; fail if they do not.

    Also waits for connectors that do not exist yet. Waiting ends early when a connector or a task stays FAILED.
    RUNNING counts once it has lasted two seconds, because a worker may briefly report an outdated state. With
    no-lag, a sink must have committed the end offset of every partition for which it has committed an offset.
    """
    target = NO_LAG if state == "no-lag" else state
    target_states = dict.fromkeys(select_names(rest, names, everything=everything), target)
    settle_s = dict.fromkeys(target_states, SETTLE_S if state == RUNNING else 0.0)
    exit_with_status(succeeded=wait_for(rest, target_states, settle_s=settle_s, timeout_s=timeout_s))
