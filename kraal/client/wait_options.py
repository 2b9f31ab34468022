"""Options `--wait` and `--timeout`, and waiting for target states."""

from __future__ import annotations

from collections.abc import Callable

import click

from kraal.client.command import Option, seconds_option
from kraal.client.output import print_error, say
from kraal.client.rest import Rest
from kraal.client.wait import wait
from kraal.core.progress import Progress


def timeout_option(help_text: str) -> Option:
    """Return the option `--timeout`, passed to the command as `timeout_s`."""
    return seconds_option("--timeout", "timeout_s", minimum=0, default=120.0, help_text=help_text)


def wait_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--wait` and `--timeout` to a command."""
    timeout = timeout_option("Timeout of --wait for all connectors together.")
    flag = click.option(
        "--wait",
        "waits",
        is_flag=True,
        help="Wait until the connectors reach the new state; fail if they do not.",
    )
    return flag(timeout(function))


def wait_for(
    rest: Rest,
    targets: dict[str, str],
    *,
    settle_s: dict[str, float] | None = None,
    timeout_s: float,
    quiet: bool = False,
) -> bool:
    """Wait and print the result for each connector (only failures if `quiet`); return whether all succeeded."""
    succeeded = True
    subject = "1 connector" if len(targets) == 1 else f"{len(targets)} connectors"
    with Progress(f"Waiting for {subject}", len(targets)) as progress:
        for name, error in wait(rest, targets, settle_s=settle_s or {}, timeout_s=timeout_s):
            progress.advance()
            if error is None and not quiet:
                say(f"{name} is {targets[name]}")
            elif error is not None:
                print_error(error)
                succeeded = False
    return succeeded
