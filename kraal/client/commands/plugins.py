"""`kraal plugins`: list plugins and their config keys."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

from kraal.client.command import CommandWithSubcommands, complete, output_option, with_rest
from kraal.client.lazy import LazyCommand
from kraal.client.output import emit, emit_table
from kraal.client.rest import Rest

_LOCK_COMMANDS = {
    "add": LazyCommand(
        "kraal.cli.plugin_lock", "add", "Add jars, wheels and Java plugins to the plugin lock."
    ),
    "remove": LazyCommand("kraal.cli.plugin_lock", "remove", "Remove plugins from the plugin lock."),
    "lock": LazyCommand("kraal.cli.plugin_lock", "lock", "Resolve the plugin lock again."),
    "list": LazyCommand("kraal.cli.plugin_lock", "list_command", "Show the plugin lock."),
}
"""Subcommands that need more than a worker's REST API; imported on first use."""


class PluginsCommand(CommandWithSubcommands):
    """Command that lists a worker's plugins and dispatches to the subcommands for the plugin lock."""

    subcommands = _LOCK_COMMANDS


def _complete_plugin(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    query = [("connectorsOnly", "false")]
    words = [
        CompletionItem[Any](word, help=lazy.summary)
        for word, lazy in _LOCK_COMMANDS.items()
        if word.startswith(incomplete)
    ]
    return words + complete(
        ctx,
        incomplete,
        lambda rest: {info["class"] for info in rest.get_list("connector-plugins", query=query)},
    )


@click.command(
    "plugins",
    cls=PluginsCommand,
    short_help="List plugins and their keys; change the plugin lock.",
    examples=(
        "kraal plugins --all",
        "kraal plugins FileStreamSource",
        "kraal plugins add --help",
    ),
)
@click.argument("plugin", required=False, metavar="[PLUGIN]", shell_complete=_complete_plugin)
@click.option("--all", "everything", is_flag=True, help="Include converters, transforms and predicates.")
@output_option
@with_rest
def plugins(rest: Rest, plugin: str | None, *, everything: bool, style: str) -> None:
    """List the connector plugins of the worker, or the config keys of one PLUGIN.

    PLUGIN is a class name or its last part. -o json and -o yaml include the documentation of the keys.

    `kraal plugins add`, `remove`, `lock` and `list` change and show the plugin lock, which contains the plugins that
    workers load in addition to the built-in ones. See the --help of each subcommand.
    """
    if plugin is not None:
        if everything:
            raise click.UsageError("--all cannot be combined with PLUGIN.")
        keys = rest.get_list("connector-plugins", plugin, "config")
        if style != "table":
            emit(keys, style)
            return
        emit_table(("KEY", "TYPE", "IMPORTANCE", "DEFAULT"), map(_key_row, keys), f"{plugin} has no keys.")
        return
    infos = rest.get_list("connector-plugins", query=[("connectorsOnly", "false")] if everything else [])
    if style != "table":
        emit(infos, style)
        return
    rows = ((info["class"], info["type"], str(info.get("version") or "-")) for info in infos)
    emit_table(("CLASS", "TYPE", "VERSION"), rows, "No plugins.")


def _key_row(key: Any) -> tuple[str, ...]:
    default = "(required)" if key["required"] else key["default_value"]
    return key["name"], key["type"], key["importance"], "-" if default is None else str(default)
