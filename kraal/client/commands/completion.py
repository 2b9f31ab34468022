"""`kraal completion`: print shell completion scripts."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kraal.client.command import ClientCommand

SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    cls=ClientCommand,
    short_help="Print a shell completion script.",
    examples=(
        "bash:  echo 'eval \"$(kraal completion bash)\"' >> ~/.bashrc",
        "zsh:   echo 'eval \"$(kraal completion zsh)\"' >> ~/.zshrc     (after compinit)",
        "fish:  kraal completion fish > ~/.config/fish/completions/kraal.fish",
    ),
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that lets a shell complete commands, options, connectors, plugins and loggers.

    Names come from the worker that --url or KRAAL_URL specifies; the request times out after two seconds.
    """
    root = ctx.find_root()
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    program = root.info_name or "kraal"
    click.echo(
        completion_class(root.command, {}, program, f"_{program}_COMPLETE".replace("-", "_").upper()).source()
    )
