"""`kraal topics`, `kraal plugins`, `kraal loggers`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
from click.shell_completion import CompletionItem
from typing_extensions import override

from kraal.client.commands.command import (
    ClientCommand,
    asking,
    complete,
    emit,
    emit_table,
    end,
    for_each,
    names_argument,
    output_option,
    say,
)
from kraal.client.rest import Refused, Rest
from kraal.commands import Lazy
from kraal.errors import KraalError

LEVELS = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL")
_MS = 1000


@click.command(
    "topics",
    cls=ClientCommand,
    short_help="Show or reset which topics connectors use.",
    examples=(
        "kraal topics",
        "kraal topics orders-source --reset",
    ),
)
@names_argument
@click.option("--reset", "resets", is_flag=True, help="Forget them, of the connectors that are named.")
@output_option
@asking
def topics(rest: Rest, names: tuple[str, ...], *, resets: bool, style: str) -> None:
    """Show which topics connectors have used since they were created or reset (KIP-558).

    All connectors, unless some are named.
    """
    if resets:
        if not names:
            raise click.UsageError("--reset is for connectors that are named.")

        def reset(name: str) -> None:
            rest.ask("PUT", "connectors", name, "topics", "reset")
            say(f"{name}: topics reset")

        end(well=for_each(names, reset))
        return
    found: dict[str, Any] = {}

    def ask(name: str) -> None:
        found.update(rest.get("connectors", name, "topics"))

    well = for_each(names or rest.names(), ask)
    if style == "table":
        rows = ((name, topic) for name, each in found.items() for topic in sorted(each["topics"]))
        emit_table(("NAME", "TOPIC"), rows, "No topics.")
    else:
        emit({name: {"topics": sorted(each["topics"])} for name, each in found.items()}, style)
    end(well=well)


_LOCK_COMMANDS = {
    "add": Lazy("kraal.plugin_commands", "add"),
    "remove": Lazy("kraal.plugin_commands", "remove"),
    "lock": Lazy("kraal.plugin_commands", "lock"),
    "list": Lazy("kraal.plugin_commands", "list_command"),
}
"""They need more than a worker's REST API, and are imported when one of them is used."""


class PluginsCommand(ClientCommand):
    """Asks a worker for its plugins; the words that change the lock of plugins are commands of their own."""

    @override
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        lazy = _LOCK_COMMANDS.get(args[0]) if args else None
        if lazy is None:
            return super().make_context(info_name, args, parent, **extra)
        return lazy.load().make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)


def _complete_plugin(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    every = [("connectorsOnly", "false")]
    words = [CompletionItem[Any](word) for word in _LOCK_COMMANDS if word.startswith(incomplete)]
    return words + complete(
        ctx,
        incomplete,
        lambda rest: {each["class"] for each in rest.get_list("connector-plugins", query=every)},
    )


@click.command(
    "plugins",
    cls=PluginsCommand,
    short_help="List plugins; show the keys of one; add|remove|lock|list.",
    examples=(
        "kraal plugins --all",
        "kraal plugins FileStreamSource",
        "kraal plugins add --help",
    ),
)
@click.argument("plugin", required=False, metavar="[PLUGIN]", shell_complete=_complete_plugin)
@click.option("--all", "everything", is_flag=True, help="Converters, transforms and predicates, too.")
@output_option
@asking
def plugins(rest: Rest, plugin: str | None, *, everything: bool, style: str) -> None:
    """List the connectors that the worker can run; of one PLUGIN, its config keys.

    A PLUGIN is named by its class or by the end of it. -o json and -o yaml give the keys with their documentation.
    What workers have beside what ships is in a lock: `kraal plugins add`, `remove`, `lock` and `list` are commands
    of their own, each with --help.
    """
    if plugin is not None:
        if everything:
            raise click.UsageError("--all is for the list, without a PLUGIN.")
        keys = rest.get_list("connector-plugins", plugin, "config")
        if style != "table":
            emit(keys, style)
            return
        emit_table(("KEY", "TYPE", "IMPORTANCE", "DEFAULT"), map(_key_row, keys), f"{plugin} has no keys.")
        return
    found = rest.get_list("connector-plugins", query=[("connectorsOnly", "false")] if everything else [])
    if style != "table":
        emit(found, style)
        return
    rows = ((each["class"], each["type"], str(each.get("version") or "-")) for each in found)
    emit_table(("CLASS", "TYPE", "VERSION"), rows, "No plugins.")


def _key_row(key: Any) -> tuple[str, ...]:
    default = "(required)" if key["required"] else key["default_value"]
    return key["name"], key["type"], key["importance"], "-" if default is None else str(default)


def _complete_logger(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    return complete(ctx, incomplete, lambda rest: rest.get("admin", "loggers"))


def _complete_level(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    return [CompletionItem(level) for level in LEVELS if level.startswith(incomplete.upper())]


@click.command(
    "loggers",
    cls=ClientCommand,
    short_help="Show and set levels of loggers.",
    examples=(
        "kraal loggers",
        "kraal loggers org.apache.kafka.connect",
        "kraal loggers root DEBUG --cluster",
    ),
)
@click.argument("logger", required=False, metavar="[LOGGER]", shell_complete=_complete_logger)
@click.argument("level", required=False, metavar="[LEVEL]", shell_complete=_complete_level)
@click.option(
    "--cluster", is_flag=True, help="Set the level on all workers, not only on the one that is asked."
)
@output_option
@asking
def loggers(rest: Rest, logger: str | None, level: str | None, *, cluster: bool, style: str) -> None:
    """List loggers and their levels, show one, or set one and all below it, until the worker ends.

    Levels: OFF, FATAL, ERROR, WARN, INFO, DEBUG, TRACE, ALL.
    """
    if cluster and level is None:
        raise click.UsageError("--cluster goes with a LOGGER and a LEVEL to set.")
    try:
        if logger is not None and level is not None:
            _set_level(rest, logger, level, cluster=cluster, style=style)
        elif logger is not None:
            _show_levels({logger: rest.get("admin", "loggers", logger)}, style)
        else:
            _show_levels(rest.get("admin", "loggers"), style)
    except Refused as error:
        if error.no_such_path:
            raise KraalError(
                f"{error}; this worker has no loggers over REST here (see admin.listeners)"
            ) from error
        raise


def _set_level(rest: Rest, logger: str, level: str, *, cluster: bool, style: str) -> None:
    scope = "cluster" if cluster else "worker"
    changed = rest.ask(
        "PUT", "admin", "loggers", logger, body={"level": level.upper()}, query=[("scope", scope)]
    )
    if style != "table":
        emit(changed or [], style)
    elif cluster:
        say(f"{logger} set to {level.upper()} on all workers")
    else:
        for name in changed:
            say(f"{name} set to {level.upper()}")


def _show_levels(found: dict[str, Any], style: str) -> None:
    if style == "table":
        emit_table(("LOGGER", "LEVEL", "LAST MODIFIED"), _level_rows(found), "No loggers have a level.")
    else:
        emit(found, style)


def _level_rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, each in found.items():
        modified = each.get("last_modified")
        when = (
            "-" if modified is None else datetime.fromtimestamp(modified / _MS, UTC).isoformat(" ", "seconds")
        )
        yield name, str(each["level"]), when
