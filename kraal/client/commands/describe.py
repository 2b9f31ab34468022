"""`kraal describe`: show all details of a connector."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import click

from kraal.client.apply import Secrets
from kraal.client.command import (
    NAME,
    ClientCommand,
    exit_with_status,
    for_each,
    output_option,
    with_rest,
)
from kraal.client.output import emit
from kraal.client.rest import RequestRejected, Rest
from kraal.client.status_tables import (
    Status,
    instances,
    traces,
)
from kraal.client.supervision import batch_lines, supervision_lines
from kraal.client.text import table
from kraal.client.wait import fetch_one
from kraal.config.hidden import hide
from kraal.core.printable import printable


@click.command(
    "describe",
    cls=ClientCommand,
    short_help="Show all details of a connector.",
    examples=(
        "kraal describe orders-source",
        "kraal describe orders-source -o yaml --show-secrets > orders-source.yaml",
    ),
)
@click.argument("names", type=NAME, nargs=-1, required=True, metavar="NAME...")
@output_option
@click.option("--show-secrets", is_flag=True, help="Print passwords and other secrets in clear text.")
@with_rest
def describe(rest: Rest, names: tuple[str, ...], *, style: str, show_secrets: bool) -> None:
    """Show all details of a connector: config, state, tasks, batches, topics, automatic restarts, and complete traces.

    Secret values are printed as [hidden] unless --show-secrets is set; references such as ${file:…} are printed. The
    output of -o json and -o yaml for one connector can be applied again if it contains no [hidden] value.
    """
    descriptions: list[dict[str, Any]] = []
    secrets = Secrets(rest)

    def add(name: str) -> None:
        descriptions.append(_describe(rest, name, None if show_secrets else secrets))

    succeeded = for_each(names, add)
    if style == "table":
        for number, description in enumerate(descriptions):
            click.echo(("\n" if number else "") + "\n".join(_output_lines(description)))
    elif descriptions:
        emit(descriptions[0] if len(names) == 1 else descriptions, style)
    exit_with_status(succeeded=succeeded)


def _describe(rest: Rest, name: str, secrets: Secrets | None) -> dict[str, Any]:
    """Return all details of a connector; hide secrets unless `secrets` is None. Raises RequestRejected, NoResponse."""
    info = rest.get("connectors", name)
    if secrets is not None:
        info["config"] = hide(info["config"], secrets.keys_of(info["config"]))
    try:
        topics = sorted(rest.get("connectors", name, "topics")[name]["topics"])
    except RequestRejected as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        topics = None  # topic tracking is disabled
    description = {
        "name": info["name"],
        "type": info.get("type"),
        "config": info["config"],
        "topics": topics,
        "status": fetch_one(rest, name, expand="supervision"),
    }
    parts = _java_parts(rest, name)
    return {**description, "java_plugins": parts} if parts else description


def _java_parts(rest: Rest, name: str) -> list[dict[str, str | None]]:
    """Return the plugins of a connector that run in the plugins' JVM; empty if the worker has no such endpoint.

    Each plugin has the keys `part` ("connector" or a config key), `class`, and `version`, which may be None.
    """
    try:
        parts = rest.get_list("connectors", name, "plugins")
    except RequestRejected as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return []
    return [
        {key: part[key] for key in ("part", "class", "version")}
        for part in parts
        if part["runtime"] == "java"
    ]


def _output_lines(description: dict[str, Any]) -> list[str]:
    """Return the lines to print, with colored states."""
    status: Status | None = description["status"]
    parts = [(_summary_lines(description), False)]
    if status is not None:
        parts += [(_task_lines(status), True), (_progress_lines(status), False)]
    return [
        line if is_colored else printable(line, keep="\t") for lines, is_colored in parts for line in lines
    ]


def _summary_lines(description: dict[str, Any]) -> list[str]:
    status: Status | None = description["status"]
    topics = "not tracked" if description["topics"] is None else ", ".join(description["topics"]) or "none"
    lines = [f"Name:    {description['name']}", f"Type:    {description['type']}"]
    if status is None:
        lines += ["State:   no status yet"]
    else:
        connector = status["connector"]
        version = f", version {connector['version']}" if connector.get("version") else ""
        lines += [f"State:   {connector['state']} on {connector['worker_id']}{version}"]
    lines += [f"Topics:  {topics}", "Config:"]
    from kraal.config.yaml_text import to_yaml  # noqa: PLC0415 - late: most commands need no YAML

    lines += [f"  {line}" for line in to_yaml(dict(sorted(description["config"].items()))).splitlines()]
    if parts := description.get("java_plugins"):
        lines += ["Java plugins, run by Kafka's Worker in a separate JVM:"]
        rows = [(part["part"], part["class"], part["version"] or "-") for part in parts]
        lines += [f"  {line}" for line in table(("PART", "CLASS", "VERSION"), rows)]
    return lines


def _task_lines(status: Status) -> list[str]:
    rows = [
        (task, instance.state, instance.worker)
        for (_, task), instance in instances({"": status}).items()
        if task != "-"
    ]
    if not rows:
        return ["Tasks:   none"]
    return ["Tasks:", *(f"  {line}" for line in table(("TASK", "STATE", "WORKER"), rows, colored=True))]


def _progress_lines(status: Status) -> list[str]:
    lines = batch_lines(status) + supervision_lines(status)
    for subject, trace in traces(status):
        lines += [f"Trace of {subject}:", *(f"  {line}" for line in trace.splitlines())]
    return lines
