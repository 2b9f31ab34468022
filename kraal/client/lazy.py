"""Commands that are imported on first use.

`kraal --help` and completion list summaries without importing the commands. Starting a worker does not import the
client, and the client does not require the packages of a worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from typing_extensions import override

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Location of a command: a module and an attribute in it."""

    module: str
    attribute: str
    summary: str
    """Short help of the command; must fit on one line of a terminal."""

    def load(self) -> click.Command:
        """Import the command. Raises TypeError if the attribute is not a command."""
        command = getattr(import_module(self.module), self.attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.module}:{self.attribute} is not a click command")
        return command


class LazyGroup(click.Group):
    """Group that imports its commands on use."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **kwargs: Any) -> None:
        """Create the group; `lazy` maps names to commands."""
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.lazy)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self.lazy.get(cmd_name)
        return None if lazy is None else lazy.load()

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as exc:
            raise click.NoSuchCommand(args[0], possibilities=self.lazy, ctx=ctx) from exc

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.write_commands(formatter, "Commands", self.list_commands(ctx))

    def write_commands(self, formatter: click.HelpFormatter, title: str, names: list[str]) -> None:
        """Write a section with the summaries of the named commands."""
        with formatter.section(title):
            formatter.write_dl([(name, self.lazy[name].summary) for name in names])

    @override
    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - needed only for completion

        items = [
            CompletionItem[Any](name, help=self.lazy[name].summary)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)
