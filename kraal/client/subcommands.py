"""Commands of the client with subcommands that need more than a worker's REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from kraal.client.command import ClientCommand
from kraal.client.lazy import Lazy

if TYPE_CHECKING:
    import click


class CommandWithSubcommands(ClientCommand):
    """Command that dispatches to a subcommand if its first argument names one, which is imported only then."""

    subcommands: ClassVar[Mapping[str, Lazy]]

    @override
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        lazy = self.subcommands.get(args[0]) if args else None
        if lazy is None:
            return super().make_context(info_name, args, parent, **extra)
        return lazy.load().make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
