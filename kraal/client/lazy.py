"""Commands that are imported on first use, so that starting a worker does not import the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Lazy:
    """Location of a command: a module and an attribute in it."""

    module: str
    attribute: str

    def load(self) -> click.Command:
        """Import the command. Raises TypeError if the attribute is not a command."""
        found = getattr(import_module(self.module), self.attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{self.module}:{self.attribute} is not a click command")
        return found


class LazyGroup(click.Group):
    """Group that loads some of its commands only when they are run, completed or listed by `--help`."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        """Create the group; `lazy` maps names to commands."""
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *self._lazy})

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._lazy.get(cmd_name)
        return super().get_command(ctx, cmd_name) if lazy is None else lazy.load()
