"""`kraal table`: show the tables that a sink writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import click

from kraal.client.command import NAME, ClientCommand, output_option, with_rest
from kraal.client.output import emit, emit_table, print_error, say
from kraal.client.rest import RequestRejected, Rest
from kraal.core.errors import KraalError

_PARTITION_HEAD: Final = ("PARTITION", "TASK", "OFFSET", "LAG", "SECONDS BEHIND")
_COMMIT_HEAD: Final = (
    "VERSION",
    "TIME (UTC)",
    "OPERATION",
    "ADDED",
    "UPDATED",
    "DELETED",
    "FILES",
    "OFFSETS",
)
_CHANGE_HEAD: Final = ("TIME (UTC)", "COLUMN", "FROM", "TO", "RECORD")
_MAX_COMMITS: Final = 10


@click.command(
    "table",
    cls=ClientCommand,
    short_help="Show the tables that a sink writes.",
    examples=("kraal table orders-sink", "kraal table orders-sink -o json"),
)
@click.argument("name", type=NAME, metavar="NAME")
@output_option
@with_rest
def table(rest: Rest, name: str, *, style: str) -> None:
    """Show the tables that the tasks of a sink write.

    Shows rows and files, how far the table is behind the topics, the last commits with their offsets, changes of the
    schema with the records that required them, and the columns. Tasks report their tables after each commit, so a
    stopped connector has none. Connectors with reports: IcebergSink and DeltaSink.
    """
    response = _request(rest, name)
    if style != "table":
        emit(response, style)
        return
    if not response["tables"]:
        click.echo(f"No task of {name} has reported a table.", err=True)
    for number, each in enumerate(response["tables"]):
        if number:
            say("")
        _show(each)
    if response["silent"]:
        print_error(
            f"no response from {', '.join(response['silent'])}, so that tables or partitions may be missing"
        )


def _request(rest: Rest, name: str) -> dict[str, Any]:
    try:
        response: dict[str, Any] = rest.get("connectors", name, "tables")
    except RequestRejected as error:
        if error.is_unknown_endpoint:
            raise KraalError(
                f"{error}; this worker does not report tables: it is not a Kraal worker, or an older one"
            ) from error
        raise
    return response


def _show(each: Mapping[str, Any]) -> None:
    if each["version"] is None:
        say(f"{each['table']} ({each['format']}): the table does not exist yet")
    else:
        totals = each["totals"]
        say(
            f"{each['table']} ({each['format']}): {_count(each['rows'], 'row')}, {_count(each['files'], 'file')}, "
            f"{_count(each['size_bytes'], 'byte')} at {_format_time(each['reported_ms'])} UTC"
        )
        say(
            f"tasks since their start: {_count(totals['commits'], 'commit')} in {totals['commit_ms'] / 1000:,.1f} s, "
            f"{_count(totals['conflicts'], 'conflict')}"
        )
    partitions = [
        (
            f"{part['topic']}-{part['partition']}",
            str(part["task"]),
            _number(part["offset"]),
            _number(part["lag_records"]),
            "-" if part["lag_ms"] is None else f"{part['lag_ms'] / 1000:,.1f}",
        )
        for part in each["partitions"]
    ]
    _show_section(_PARTITION_HEAD, partitions)
    _show_section(_COMMIT_HEAD, [_format_commit(commit) for commit in each["commits"][:_MAX_COMMITS]])
    changes = [
        (
            _format_time(change["time_ms"]),
            change["column"],
            change["old_type"] or "-",
            change["new_type"],
            change["record"],
        )
        for change in each["schema_changes"]
    ]
    _show_section(_CHANGE_HEAD, changes)
    _show_section(("COLUMN", "TYPE"), [(column["name"], column["type"]) for column in each["columns"]])


def _show_section(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        say("")
        emit_table(head, rows, "")


def _format_commit(commit: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (_number(commit[f"rows_{change}"]) for change in ("added", "updated", "deleted"))
    offsets = (
        "-"
        if commit["offsets"] is None
        else ", ".join(f"{part['topic']}-{part['partition']}@{part['offset']}" for part in commit["offsets"])
    )
    files = f"+{_number(commit['files_added'])} -{_number(commit['files_removed'])}"
    return (commit["version"], _format_time(commit["time_ms"]), commit["operation"], *counts, files, offsets)


def _format_time(time_ms: int | None) -> str:
    return "-" if time_ms is None else f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _count(value: int | None, noun: str) -> str:
    if value is None:
        return f"unknown number of {noun}s"
    return f"{value:,} {noun}{'' if value == 1 else 's'}"
