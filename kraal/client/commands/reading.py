"""`kraal ls`, `kraal status`, `kraal describe`: what there is, and how it is."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import click

from kraal.client.apply import Secrets
from kraal.client.commands.command import (
    NAME,
    ClientCommand,
    asking,
    emit,
    emit_table,
    end,
    for_each,
    names_argument,
    output_option,
    say,
)
from kraal.client.rest import Refused, Rest
from kraal.client.secrets import hide
from kraal.client.statuses import (
    LIST_HEAD,
    STATUS_HEAD,
    Status,
    Statuses,
    instances,
    list_rows,
    status_rows,
    traces,
)
from kraal.client.supervision import supervision_lines
from kraal.client.text import one_line, table
from kraal.client.wait import fetch, fetch_one
from kraal.client.watch import Watch
from kraal.client.yaml_writer import to_yaml

NO_CONNECTORS = "No connectors."


@click.command(
    "ls",
    cls=ClientCommand,
    short_help="List the connectors.",
    examples=(
        "kraal ls",
        "kraal ls -q | xargs -n1 kraal describe",
        "kraal ls -o json | jq -r '.[] | select(.connector.state == \"FAILED\") | .name'",
    ),
)
@output_option
@click.option("-q", "--quiet", is_flag=True, help="Names only, one a line.")
@asking
def ls(rest: Rest, *, style: str, quiet: bool) -> None:
    """List the connectors: type, state, how many tasks run of how many, and the connector's worker."""
    if quiet:
        for name in rest.names():
            say(name)
        return
    _show(fetch(rest), style, LIST_HEAD, list_rows)


@click.command(
    "status",
    cls=ClientCommand,
    short_help="Show the states of connectors and tasks; --watch.",
    examples=(
        "kraal status",
        "kraal status orders-source --watch",
    ),
)
@names_argument
@output_option
@click.option("-w", "--watch", "watches", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look with --watch.",
)
@asking
def status(rest: Rest, names: tuple[str, ...], *, style: str, watches: bool, interval: float) -> None:
    """Show connectors and their tasks: state, worker, and the first line of the trace of what failed.

    All connectors, unless some are named. With --watch, a terminal shows the table and keeps it up to date; a file or
    a pipe gets a line for each state now and for each change later (with -o json, a JSON object a line).
    """
    look = partial(_look, rest, names)
    if watches:
        _watch(rest, Watch(look, rest.clock.pause, interval), style)
        return
    if not names:
        _show(look(), style, STATUS_HEAD, status_rows)
        return
    found: dict[str, Status | None] = {}
    well = for_each(names, lambda name: found.update({name: _existing(rest, name)}))
    if found:
        _show(found, style, STATUS_HEAD, status_rows)
    end(well=well)


def _existing(rest: Rest, name: str) -> Status | None:
    """Return a connector's status, None when it has none yet. Raises Refused when there is no such connector."""
    found = fetch_one(rest, name)
    if found is None:
        rest.get("connectors", name)
    return found


def _look(rest: Rest, names: Sequence[str]) -> Statuses:
    """Return the statuses to watch: of a named connector that is not there, None."""
    return {name: fetch_one(rest, name) for name in names} if names else fetch(rest)


def _watch(rest: Rest, watch: Watch, style: str) -> None:
    if style == "yaml":
        raise click.UsageError("--watch prints a table or JSON lines; -o yaml does not go with it.")
    try:
        if style == "table" and sys.stdout.isatty():
            watch.on_screen(
                lambda text: click.echo(text, nl=False), shutil.get_terminal_size, rest.target.url
            )
        else:
            watch.as_lines(_line_now, _warn, as_json=style == "json")
    except KeyboardInterrupt:
        if sys.stdout.isatty():
            click.echo()


def _line_now(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()


def _warn(text: str) -> None:
    click.echo(one_line(text), err=True)


def _show(statuses: Statuses, style: str, head: Sequence[str], rows: Any) -> None:
    if style == "table":
        emit_table(head, rows(statuses), NO_CONNECTORS)
    else:
        emit([each for each in statuses.values() if each is not None], style)


@click.command(
    "describe",
    cls=ClientCommand,
    short_help="Show all of a connector, traces in full.",
    examples=(
        "kraal describe orders-source",
        "kraal describe orders-source -o yaml --show-secrets > orders-source.yaml",
    ),
)
@click.argument("names", type=NAME, nargs=-1, required=True, metavar="NAME...")
@output_option
@click.option("--show-secrets", is_flag=True, help="Print passwords and the like as they are stored.")
@asking
def describe(rest: Rest, names: tuple[str, ...], *, style: str, show_secrets: bool) -> None:
    """Show all of a connector: config, state, tasks, topics, automatic restarts, and traces in full.

    Values of secret keys are [hidden], unless --show-secrets; references such as ${file:…} are shown. What
    -o json and -o yaml print of one connector can be applied again, if nothing in it is hidden.
    """
    found: list[dict[str, Any]] = []
    secrets = Secrets(rest)

    def look(name: str) -> None:
        found.append(_described(rest, name, None if show_secrets else secrets))

    well = for_each(names, look)
    if style == "table":
        for number, each in enumerate(found):
            say(("\n" if number else "") + "\n".join(_sections(each)))
    elif found:
        emit(found[0] if len(names) == 1 else found, style)
    end(well=well)


def _described(rest: Rest, name: str, secrets: Secrets | None) -> dict[str, Any]:
    """Return all of a connector, its config hidden by `secrets` unless None. Raises Refused, NoAnswer."""
    info = rest.get("connectors", name)
    if secrets is not None:
        info["config"] = hide(info["config"], secrets.of(info["config"]))
    try:
        topics = sorted(rest.get("connectors", name, "topics")[name]["topics"])
    except Refused as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        topics = None  # topic tracking is disabled
    return {
        "name": info["name"],
        "type": info.get("type"),
        "config": info["config"],
        "topics": topics,
        "status": fetch_one(rest, name, expand="supervision"),
    }


def _sections(found: dict[str, Any]) -> list[str]:
    status: Status | None = found["status"]
    topics = "not tracked" if found["topics"] is None else ", ".join(found["topics"]) or "none"
    lines = [f"Name:    {found['name']}", f"Type:    {found['type']}"]
    if status is None:
        lines += ["State:   no status yet"]
    else:
        connector = status["connector"]
        version = f", version {connector['version']}" if connector.get("version") else ""
        lines += [f"State:   {connector['state']} on {connector['worker_id']}{version}"]
    lines += [f"Topics:  {topics}", "Config:"]
    lines += [f"  {line}" for line in to_yaml(dict(sorted(found["config"].items()))).splitlines()]
    if status is not None:
        rows = [
            (task, each.state, each.worker)
            for (_, task), each in instances({"": status}).items()
            if task != "-"
        ]
        lines += (
            ["Tasks:", *(f"  {line}" for line in table(("TASK", "STATE", "WORKER"), rows))]
            if rows
            else ["Tasks:   none"]
        )
        lines += supervision_lines(status)
        for what, trace in traces(status):
            lines += [f"Trace of {what}:", *(f"  {line}" for line in trace.splitlines())]
    return lines
