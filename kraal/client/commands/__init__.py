"""The client's commands, for `kraal.cli` to add to its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.client.commands.assignments import assignments
from kraal.client.commands.changing import apply_command, delete, diff, patch
from kraal.client.commands.completion import completion
from kraal.client.commands.offsets import offsets
from kraal.client.commands.others import loggers, plugins, topics
from kraal.client.commands.reading import describe, ls, status
from kraal.client.commands.states import pause, restart, resume, stop

if TYPE_CHECKING:
    import click

COMMANDS: tuple[click.Command, ...] = (
    ls,
    status,
    describe,
    apply_command,
    diff,
    patch,
    restart,
    pause,
    resume,
    stop,
    delete,
    offsets,
    topics,
    plugins,
    assignments,
    loggers,
    completion,
)
"""In the order in which help shows them."""
