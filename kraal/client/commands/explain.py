"""`kraal explain`: explain the placement and the state of a connector or task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from kraal.client.command import NAME, ClientCommand, output_option, with_rest
from kraal.client.output import emit, say
from kraal.client.rest import RequestRejected, Rest
from kraal.core.errors import KraalError
from kraal.core.ids import TaskId
from kraal.core.printable import printable

_MS_PER_SECOND = 1000


@click.command(
    "explain",
    cls=ClientCommand,
    short_help="Explain where a connector or task runs, and its state.",
    examples=(
        "kraal explain orders-source",
        "kraal explain orders-source-0",
        "kraal explain orders-source -o json",
    ),
)
@click.argument("name", type=NAME, metavar="NAME")
@output_option
@with_rest
def explain(rest: Rest, name: str, *, style: str) -> None:
    """Explain the placement and the state of a connector and its tasks.

    NAME is a connector, or a task such as orders-source-0. For the connector and each task, shows why it was assigned
    to its worker, or why it is waiting, and the reasons for its state with the latest events: target state, failures,
    restarts, stalls. Any worker accepts the request; it queries the leader and the workers that run the connector.
    """
    response, task = _fetch_explanation(rest, name)
    if task is not None:
        response = {**response, "tasks": [entry for entry in response["tasks"] if entry["id"] == task.task]}
        if not response["tasks"]:
            raise KraalError(f"Task {name} not found; connector {task.connector} has no task {task.task}.")
    if style != "table":
        emit(response, style)
        return
    for line in _lines(response, with_connector=task is None):
        say(line)


def _fetch_explanation(rest: Rest, name: str) -> tuple[dict[str, Any], TaskId | None]:
    """Return the explanation of a connector, and the task if only one was requested. Raises KraalError."""
    try:
        return _get_explanation(rest, name), None
    except RequestRejected as error:
        if not error.is_not_found:
            raise
        try:
            task = TaskId.parse(name)
        except ValueError:
            raise error from None
        try:
            return _get_explanation(rest, task.connector), task
        except RequestRejected as other:
            raise error if other.is_not_found else other from None


def _get_explanation(rest: Rest, connector: str) -> dict[str, Any]:
    try:
        response: dict[str, Any] = rest.get("connectors", connector, "explain")
    except RequestRejected as error:
        if error.is_unknown_endpoint:
            raise KraalError(
                f"{error}; this worker does not explain connectors: it is not a Kraal worker, or an older one"
            ) from error
        raise
    return response


def _lines(response: Mapping[str, Any], *, with_connector: bool) -> Iterator[str]:
    if with_connector:
        yield printable(
            f"Connector {response['name']} ({response['type']}), target state {response['target']}"
        )
        yield from _instance(response["connector"])
    for number, task in enumerate(response["tasks"]):
        if number or with_connector:
            yield ""
        yield printable(f"Task {response['name']}-{task['id']}")
        yield from _instance(task)
    if response["silent"]:
        yield ""
        yield printable(f"No response from {', '.join(map(str, response['silent']))}; their data is missing.")


def _instance(instance: Mapping[str, Any]) -> Iterator[str]:
    worker = f" on {instance['worker_id']}" if instance["worker_id"] else ""
    yield printable(f"  State:   {instance['state'] or 'none yet'}{worker}")
    first_line, *other_lines = _placement_lines(instance["placement"])
    yield printable(f"  Where:   {first_line}")
    yield from (printable(f"           {line}") for line in other_lines)
    for number, reason in enumerate(instance["reasons"]):
        yield printable(f"  {'Why:' if number == 0 else '    '}     {reason['text']}")
    if instance["events"]:
        yield "  Events:"
    for event in instance["events"]:
        user = f" ({event['by']})" if event["by"] else ""
        yield printable(f"    {_format_time(event['ms'])}  {event['text']}{user}")


def _placement_lines(placement: Mapping[str, Any] | None) -> list[str]:
    if placement is None:
        return ["Unknown: the leader did not respond or is an Apache Kafka worker."]
    lines = [placement["why"]]
    if placement["worker"]:
        lines.append(f"Assigned to {placement['worker']}")
    if placement["rebalance"]:
        lines.append(f"Rebalance reason: {placement['rebalance']}")
    if placement["until_ms"] is not None:
        lines.append(f"Waits until {_format_time(placement['until_ms'])} at the latest")
    return lines


def _format_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / _MS_PER_SECOND, UTC).isoformat(" ", "seconds")
