"""`kraal restart`: restart connectors and tasks."""

from __future__ import annotations

from typing import Any

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
from kraal.client.wait import SETTLE_S, current_target, fetch_one
from kraal.client.wait_options import wait_for, wait_options


@click.command(
    "restart",
    cls=ClientCommand,
    short_help="Restart connectors and tasks.",
    examples=(
        "kraal restart NAME                          the connector only, no tasks",
        "kraal restart NAME --tasks                  the connector and all its tasks",
        "kraal restart NAME --tasks --only-failed    the connector and its tasks, if FAILED",
        "kraal restart NAME --only-failed            the connector only, if FAILED",
        "kraal restart NAME --task 0 --task 2        these tasks",
        "kraal restart --all --tasks --only-failed   all FAILED connectors and tasks",
    ),
)
@names_argument
@all_option
@click.option("--tasks", "include_tasks", is_flag=True, help="Also restart the tasks.")
@click.option("--only-failed", is_flag=True, help="Restart only FAILED instances.")
@click.option(
    "--task",
    "task_ids",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="N",
    help="Restart only this task of a single connector (repeatable).",
)
@wait_options
@with_rest
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
    """Restart connectors, their tasks, or only the failed ones (KIP-745)."""
    if task_ids and (include_tasks or only_failed or everything or len(names) != 1):
        raise click.UsageError(
            "--task requires exactly one connector and cannot be combined with --tasks, --only-failed or --all."
        )
    selected_names = select_names(rest, names, everything=everything)
    target_states: dict[str, str] = {}

    def send(name: str) -> None:
        previous_status = fetch_one(rest, name) if waits else None
        if task_ids:
            for number in dict.fromkeys(task_ids):
                rest.ask("POST", "connectors", name, "tasks", str(number), "restart")
                say(f"{name} task {number} restarted")
        else:
            query = [
                ("includeTasks", _java_boolean(include_tasks)),
                ("onlyFailed", _java_boolean(only_failed)),
            ]
            response = rest.ask("POST", "connectors", name, "restart", query=query)
            say(_result_text(name, response))
        target_states[name] = current_target(previous_status)

    succeeded = for_each(selected_names, send)
    settle_s = dict.fromkeys(target_states, SETTLE_S)
    is_reached = not waits or wait_for(rest, target_states, settle_s=settle_s, timeout_s=timeout_s)
    exit_with_status(succeeded=succeeded and is_reached)


def _java_boolean(flag: bool) -> str:  # noqa: FBT001 - its only argument
    return "true" if flag else "false"


def _result_text(name: str, response: Any) -> str:
    """Describe the restarted instances. The response is empty unless tasks or --only-failed are requested (KIP-745)."""
    if not response:
        return f"{name} restarted"
    tasks = [str(task["id"]) for task in response["tasks"] if task["state"] == "RESTARTING"]
    parts = ["connector"] if response["connector"]["state"] == "RESTARTING" else []
    parts += [f"task{'s' if len(tasks) > 1 else ''} {', '.join(tasks)}"] if tasks else []
    return f"{name} restarting: {' and '.join(parts)}" if parts else f"{name}: nothing to restart"
