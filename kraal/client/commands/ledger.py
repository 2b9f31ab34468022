"""`kraal ledger`: show how many records the tasks of a connector have delivered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import click

from kraal.client.command import NAME, ClientCommand, output_option, with_rest
from kraal.client.output import emit, emit_table, print_error, say
from kraal.client.rest import RequestRejected, Rest
from kraal.core.errors import KraalError
from kraal.ledger.texts import format_partition, format_position

_COUNTS: Final = ("batches", "read", "written", "dropped", "dead_letters", "tolerated", "break_count")
_TASK_HEAD: Final = ("TASK", "BATCHES", "READ", "WRITTEN", "DROPPED", "DEAD", "TOLERATED", "BREAKS")
_PARTITION_HEAD: Final = ("PARTITION", "SINCE", "END", "REPEATED", "UNCOUNTED")


class _LedgerCommand(ClientCommand):
    """A command whose failure differs from records that are not accounted for."""

    error_exit_code = 2


@click.command(
    "ledger",
    cls=_LedgerCommand,
    short_help="Show how many records the tasks of a connector have delivered.",
    epilog="Exit codes: 0 all counted records are accounted for, 1 some are not, 2 the request failed.",
    examples=("kraal ledger orders-sink", "kraal ledger orders-sink -o json"),
)
@click.argument("name", type=NAME, metavar="NAME")
@output_option
@with_rest
def ledger(rest: Rest, name: str, *, style: str) -> None:
    """Show the totals of a connector's tasks, and the positions of its partitions that were counted.

    Lists batches whose records are not all accounted for, and ranges that were not counted. Requires workers with
    ledger.storage.topic or ledger.storage.file.filename.
    """
    response = _request(rest, name)
    if style != "table":
        emit(response, style)
    else:
        _show(response)
    if any(task["break_count"] for task in response["tasks"]):
        raise click.exceptions.Exit(1)


def _request(rest: Rest, name: str) -> dict[str, Any]:
    try:
        response: dict[str, Any] = rest.get("connectors", name, "ledger")
    except RequestRejected as error:
        if error.is_unknown_endpoint:
            raise KraalError(
                f"{error}; this worker has no ledger: set ledger.storage.topic (standalone: "
                "ledger.storage.file.filename) of a Kraal worker"
            ) from error
        raise
    return response


def _show(response: dict[str, Any]) -> None:
    tasks = [(str(task["task"]), *(f"{task[name]:,}" for name in _COUNTS)) for task in response["tasks"]]
    emit_table(_TASK_HEAD, tasks, "No batches were counted.")
    partitions = [
        (
            format_partition(each["partition"]),
            *map(format_position, (each["since"], each["end"])),
            f"{each['repeated']:,}",
            f"{each['uncounted_count']:,}",
        )
        for each in response["partitions"]
    ]
    if partitions:
        say("")
        emit_table(_PARTITION_HEAD, partitions, "")
    for task in response["tasks"]:
        for each in task["breaks"]:
            time = datetime.fromtimestamp(each["time_ms"] / 1000, UTC)
            say(f"task {task['task']}, {each['ranges']} ({time:%Y-%m-%d %H:%M} UTC): {each['reason']}")
    for partition in response["partitions"]:
        for each in partition["uncounted"]:
            start, end = map(format_position, (each["start"], each["end"]))
            say(f"not counted: {format_partition(partition['partition'])} from {start} to {end}")
    if response["problem"] is not None:
        print_error(
            f"totals may be missing, because the ledger cannot be read or written: {response['problem']}"
        )
