"""`kraal completion`: what a shell needs to complete commands, options, and what the worker has."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kraal.client.commands.command import USAGE, ClientCommand

SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    cls=ClientCommand,
    short_help="Print a shell's completion script.",
    examples=(
        "bash:  echo 'eval \"$(kraal completion bash)\"' >> ~/.bashrc",
        "zsh:   echo 'eval \"$(kraal completion zsh)\"' >> ~/.zshrc     (after compinit)",
        "fish:  kraal completion fish > ~/.config/fish/completions/kraal.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that has a shell complete `kraal`: commands, options, connectors, plugins, loggers.

    Names are asked of the worker of --url or KRAAL_URL, for at most two seconds.
    """
    root = ctx.find_root()
    found = get_completion_class(shell)
    if found is None:
        raise click.exceptions.Exit(USAGE)
    program = root.info_name or "kraal"
    click.echo(found(root.command, {}, program, f"_{program}_COMPLETE".replace("-", "_").upper()).source())
