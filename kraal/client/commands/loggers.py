"""`kraal loggers`: show and set log levels."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
from click.shell_completion import CompletionItem

from kraal.client.command import (
    ClientCommand,
    complete,
    output_option,
    with_rest,
)
from kraal.client.output import emit, emit_table, say
from kraal.client.rest import RequestRejected, Rest
from kraal.core.errors import KraalError

LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")


_MS_PER_SECOND = 1000


def _complete_logger(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    return complete(ctx, incomplete, lambda rest: rest.get("admin", "loggers"))


def _complete_level(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    return [CompletionItem(level) for level in LEVELS if level.startswith(incomplete.upper())]


@click.command(
    "loggers",
    cls=ClientCommand,
    short_help="Show and set log levels.",
    examples=(
        "kraal loggers",
        "kraal loggers org.apache.kafka.connect",
        "kraal loggers root DEBUG --cluster",
    ),
)
@click.argument("logger", required=False, metavar="[LOGGER]", shell_complete=_complete_logger)
@click.argument("level", required=False, metavar="[LEVEL]", shell_complete=_complete_level)
@click.option("--cluster", is_flag=True, help="Set the level on all workers of the cluster.")
@output_option
@with_rest
def loggers(rest: Rest, logger: str | None, level: str | None, *, cluster: bool, style: str) -> None:
    """List log levels, show the level of one logger, or set the level of a logger and its children.

    Changes last until the worker stops. Levels: OFF, FATAL, ERROR, WARN, INFO, DEBUG, TRACE, ALL.
    """
    if cluster and level is None:
        raise click.UsageError("--cluster requires LOGGER and LEVEL.")
    try:
        if logger is not None and level is not None:
            _set_level(rest, logger, level, cluster=cluster, style=style)
        elif logger is not None:
            _show_levels({logger: rest.get("admin", "loggers", logger)}, style)
        else:
            _show_levels(rest.get("admin", "loggers"), style)
    except RequestRejected as error:
        if error.is_unknown_endpoint:
            raise KraalError(
                f"{error}; this worker does not serve /admin/loggers on this listener (see admin.listeners)"
            ) from error
        raise


def _set_level(rest: Rest, logger: str, level: str, *, cluster: bool, style: str) -> None:
    scope = "cluster" if cluster else "worker"
    changed_loggers = rest.ask(
        "PUT", "admin", "loggers", logger, body={"level": level.upper()}, query=[("scope", scope)]
    )
    if style != "table":
        emit(changed_loggers or [], style)
    elif cluster:
        say(f"{logger} set to {level.upper()} on all workers")
    else:
        for name in changed_loggers:
            say(f"{name} set to {level.upper()}")


def _show_levels(levels: dict[str, Any], style: str) -> None:
    if style == "table":
        emit_table(("LOGGER", "LEVEL", "LAST MODIFIED"), _level_rows(levels), "No logger has a level.")
    else:
        emit(levels, style)


def _level_rows(levels: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, entry in levels.items():
        modified_ms = entry.get("last_modified")
        time = (
            "-"
            if modified_ms is None
            else datetime.fromtimestamp(modified_ms / _MS_PER_SECOND, UTC).isoformat(" ", "seconds")
        )
        yield name, str(entry["level"]), time
