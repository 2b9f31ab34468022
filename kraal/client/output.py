"""Output of the client: lines, JSON, YAML, tables, diffs and errors."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from kraal.client.status_tables import (
    Statuses,
)
from kraal.client.terminal.colors import colorize
from kraal.client.text import table
from kraal.core.errors import HINT, KraalError
from kraal.core.printable import join_lines, printable
from kraal.core.progress import pause_drawing

NO_CONNECTORS = "No connectors."
_HINTS_KEY = "kraal.hints"
"""Key in the command context's `meta` for the hints that were already printed."""


def print_error(error: Exception | str, *, about: str = "") -> None:
    """Print an error on one line to standard error, followed by its hint, if any.

    A command prints each hint only once, even if many connectors have the same error. `about` is the connector.
    """
    hint = error.hint if isinstance(error, KraalError) else ""
    context = click.get_current_context(silent=True)
    printed_hints = set[str]() if context is None else context.meta.setdefault(_HINTS_KEY, set())
    with pause_drawing():
        click.echo(f"Error: {f'{about}: ' if about else ''}{join_lines(str(error))}", err=True)
        if hint and hint not in printed_hints:
            click.echo(f"{HINT}{join_lines(hint)}", err=True)
    printed_hints.add(hint)


def say(text: str) -> None:
    """Print text with control characters escaped."""
    with pause_drawing():
        click.echo(printable(text, keep="\n\t"))


def emit(value: Any, style: str) -> None:
    """Print data unchanged as JSON or YAML."""
    if style == "yaml":
        from kraal.config.yaml_text import to_yaml  # noqa: PLC0415 - late: most commands need no YAML

        click.echo(to_yaml(value), nl=False)
        return
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if printable(text, keep="\n") != text:  # escape all non-ASCII characters, some of which are not printable
        text = json.dumps(value, indent=2)
    click.echo(text)


def emit_table(head: Sequence[str], rows: Iterable[Sequence[str]], empty_text: str) -> None:
    """Print a table, truncated to the terminal's width; without rows, print `empty_text` to standard error."""
    row_list = list(rows)
    if not row_list:
        click.echo(empty_text, err=True)
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table(head, row_list, width, colored=True):
        click.echo(line)


def emit_statuses(statuses: Statuses, style: str, head: Sequence[str], to_rows: Any) -> None:
    """Print statuses as a table of the rows that `to_rows` returns, or the worker's objects as JSON or YAML."""
    if style == "table":
        emit_table(head, to_rows(statuses), NO_CONNECTORS)
    else:
        emit([status for status in statuses.values() if status is not None], style)


_COLORS = {"-": "red", "+": "green", "@": "cyan"}


def emit_diff(lines: Sequence[str]) -> None:
    """Print a diff in colors."""
    for line in lines:
        is_title = line.startswith(("--- ", "+++ "))
        color = None if is_title else _COLORS.get(line[:1])
        click.echo(colorize(line, color))
