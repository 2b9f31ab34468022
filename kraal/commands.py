"""Commands that are imported when they are used: a worker's start does not pay for a client's code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is: the attribute of a module."""

    module: str
    attribute: str

    def load(self) -> click.Command:
        """Import the command. Raises TypeError when something else is there."""
        found = getattr(import_module(self.module), self.attribute)
        if not isinstance(found, click.Command):
            raise TypeError(f"{self.module}:{self.attribute} is no command")
        return found


class LazyGroup(click.Group):
    """A group, some of whose commands are only names until they are run, completed or shown in help."""

    def __init__(self, *args: Any, lazy: Mapping[str, Lazy], **kwargs: Any) -> None:
        """`lazy`: by name."""
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*self.commands, *self._lazy})

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        lazy = self._lazy.get(cmd_name)
        return super().get_command(ctx, cmd_name) if lazy is None else lazy.load()
