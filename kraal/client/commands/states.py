"""`kraal restart`, `pause`, `resume`, `stop`: what a connector should do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from kraal.client.commands.command import (
    ClientCommand,
    asking,
    chosen,
    complain,
    end,
    for_each,
    names_argument,
    say,
)
from kraal.client.rest import Rest
from kraal.client.wait import CHANGED_S, current_target, fetch_one, wait

all_option = click.option("--all", "everything", is_flag=True, help="Every connector.")


def wait_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add `--wait` and `--timeout` to a command."""
    timeout = click.option(
        "--timeout",
        "timeout_s",
        type=click.FloatRange(min=0),
        default=120.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to --wait, for all connectors together.",
    )
    flag = click.option(
        "--wait", "waits", is_flag=True, help="Return when it has happened; fail if it does not."
    )
    return flag(timeout(function))


def wait_for(
    rest: Rest,
    wanted: dict[str, str],
    *,
    settle_s: dict[str, float] | None = None,
    timeout_s: float,
    quiet: bool = False,
) -> bool:
    """Wait, and say of each connector how it went, if quiet only of failures; tells whether all went well."""
    well = True
    for name, error in wait(rest, wanted, settle_s=settle_s or {}, timeout_s=timeout_s):
        if error is None and not quiet:
            say(f"{name} is {wanted[name]}")
        elif error is not None:
            complain(error)
            well = False
    return well


def set_states(
    rest: Rest, names: Sequence[str], path: str, *, done: str, wanted: str, waits: bool, timeout_s: float
) -> None:
    """Send each connector's PUT; then, on demand, wait. Ends the command with 1 when anything failed."""
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
    """Pause connectors: their tasks stay and do nothing. It outlives restarts of the workers (KIP-52)."""
    names_meant = chosen(rest, names, everything=everything)
    set_states(
        rest, names_meant, "pause", done="will pause", wanted="PAUSED", waits=waits, timeout_s=timeout_s
    )


@click.command(
    "resume",
    cls=ClientCommand,
    short_help="Have paused or stopped connectors run again.",
    examples=("kraal resume --all --wait",),
)
@names_argument
@all_option
@wait_options
@asking
def resume(rest: Rest, names: tuple[str, ...], *, everything: bool, waits: bool, timeout_s: float) -> None:
    """Have paused or stopped connectors run again."""
    names_meant = chosen(rest, names, everything=everything)
    set_states(
        rest, names_meant, "resume", done="will run", wanted="RUNNING", waits=waits, timeout_s=timeout_s
    )


@click.command(
    "stop",
    cls=ClientCommand,
    short_help="Stop connectors: their tasks end.",
    examples=("kraal stop orders-source --wait && kraal offsets reset orders-source",),
)
@names_argument
@all_option
@wait_options
@asking
def stop(rest: Rest, names: tuple[str, ...], *, everything: bool, waits: bool, timeout_s: float) -> None:
    """Stop connectors: their tasks end. Offsets can be altered then; `kraal resume` starts them (KIP-875)."""
    names_meant = chosen(rest, names, everything=everything)
    set_states(
        rest, names_meant, "stop", done="will stop", wanted="STOPPED", waits=waits, timeout_s=timeout_s
    )


@click.command(
    "restart",
    cls=ClientCommand,
    short_help="Restart connectors, tasks, or what failed.",
    examples=(
        "kraal restart NAME                          the connector alone, no task",
        "kraal restart NAME --tasks                  the connector and all its tasks",
        "kraal restart NAME --tasks --only-failed    whatever of them is FAILED",
        "kraal restart NAME --only-failed            the connector alone, if it is FAILED",
        "kraal restart NAME --task 0 --task 2        these tasks",
        "kraal restart --all --tasks --only-failed   whatever is FAILED anywhere",
    ),
)
@names_argument
@all_option
@click.option("--tasks", "include_tasks", is_flag=True, help="The tasks too, not the connector alone.")
@click.option("--only-failed", is_flag=True, help="Only what is FAILED: of the connector, and of --tasks.")
@click.option(
    "--task",
    "task_ids",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="This task alone, of one connector. Repeatable.",
)
@wait_options
@asking
def restart(
    rest: Rest,
    names: tuple[str, ...],
    *,
    everything: bool,
    include_tasks: bool,
    only_failed: bool,
    task_ids: tuple[int, ...],
    waits: bool,
    timeout_s: float,
) -> None:
    """Restart connectors, their tasks, or what failed of them (KIP-745)."""
    if task_ids and (include_tasks or only_failed or everything or len(names) != 1):
        raise click.UsageError(
            "--task is for one connector, and does not go with --tasks, --only-failed or --all."
        )
    names_meant = chosen(rest, names, everything=everything)
    wanted: dict[str, str] = {}

    def send(name: str) -> None:
        before = fetch_one(rest, name) if waits else None
        if task_ids:
            for number in dict.fromkeys(task_ids):
                rest.ask("POST", "connectors", name, "tasks", str(number), "restart")
                say(f"{name} task {number} restarted")
        else:
            query = [("includeTasks", _java(include_tasks)), ("onlyFailed", _java(only_failed))]
            answer = rest.ask("POST", "connectors", name, "restart", query=query)
            say(_restarted(name, answer))
        wanted[name] = current_target(before)

    well = for_each(names_meant, send)
    settle_s = dict.fromkeys(wanted, CHANGED_S)
    waited = not waits or wait_for(rest, wanted, settle_s=settle_s, timeout_s=timeout_s)
    end(well=well and waited)


def _java(flag: bool) -> str:  # noqa: FBT001 - its only argument
    return "true" if flag else "false"


def _restarted(name: str, answer: Any) -> str:
    """Say what a restart does. The answer is none for a connector alone, else its status to be (KIP-745)."""
    if not answer:
        return f"{name} restarted"
    tasks = [str(task["id"]) for task in answer["tasks"] if task["state"] == "RESTARTING"]
    parts = ["connector"] if answer["connector"]["state"] == "RESTARTING" else []
    parts += [f"task{'s' if len(tasks) > 1 else ''} {', '.join(tasks)}"] if tasks else []
    return f"{name} restarting: {' and '.join(parts)}" if parts else f"{name}: nothing to restart"
