"""Output of the client: lines, JSON, YAML, tables, diffs and errors."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from kraal.client.status_tables import (
    Statuses,
)
from kraal.client.text import table
from kraal.core.printable import one_line, printable

NO_CONNECTORS = "No connectors."


def print_error(error: Exception | str) -> None:
    """Print an error on one line to standard error."""
    click.echo(f"Error: {one_line(str(error))}", err=True)


def say(text: str) -> None:
    """Print text; control characters in it are escaped."""
    click.echo(printable(text, keep="\n\t"))


def emit(value: Any, style: str) -> None:
    """Print data unchanged as JSON or YAML."""
    if style == "yaml":
        from kraal.config.yaml_text import to_yaml  # noqa: PLC0415 - late: most commands need no YAML

        click.echo(to_yaml(value), nl=False)
        return
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if printable(text, keep="\n") != text:  # escape everything beyond ASCII, as JSON allows
        text = json.dumps(value, indent=2)
    click.echo(text)


def emit_table(head: Sequence[str], rows: Iterable[Sequence[str]], nothing: str) -> None:
    """Print a table, cut to the width of a terminal; without rows, print `nothing` to standard error."""
    laid_out = list(rows)
    if not laid_out:
        click.echo(nothing, err=True)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table(head, laid_out, width):
        click.echo(line)


def emit_statuses(statuses: Statuses, style: str, head: Sequence[str], rows: Any) -> None:
    """Print statuses as a table, or the worker's status objects as JSON or YAML."""
    if style == "table":
        emit_table(head, rows(statuses), NO_CONNECTORS)
    else:
        emit([each for each in statuses.values() if each is not None], style)


_COLORS = {"-": "red", "+": "green", "@": "cyan"}


def emit_diff(lines: Sequence[str]) -> None:
    """Print a diff, colored on a terminal unless NO_COLOR is set."""
    for line in lines:
        is_title = line.startswith(("--- ", "+++ "))
        color = None if is_title else _COLORS.get(line[:1])
        click.echo(painted(line, color))


def painted(text: str, color: str | None) -> str:
    """Return a text in a color, which click leaves out where the output is no terminal; plain if NO_COLOR is set."""
    return text if color is None or os.environ.get("NO_COLOR") else click.style(text, fg=color)
