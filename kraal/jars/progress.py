"""Progress of a download, on stderr."""

from __future__ import annotations

import sys
import time
from typing import Final, Self

import click

QUIET_S: Final = 2.0
"""Progress is printed only after this time."""


class DownloadProgress:
    """Prints download progress to stderr: in place on a terminal, otherwise one line every five seconds."""

    def __init__(self, what: str) -> None:
        """Start; `what` is the beginning of each line, such as `Downloading 3 jars`."""
        self._what = what
        self._begun = time.monotonic()
        self._due = self._begun + QUIET_S
        self._shown = False
        self._in_place = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def show(self, looked_up: int, fetched: int) -> None:
        """Print the numbers of modules resolved and files downloaded so far, if the last line is old enough."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + (0.5 if self._in_place else 5.0)
        self._shown = True
        text = f"{self._what}: {looked_up} resolved, {fetched} downloaded"
        click.echo(f"\r{text}" if self._in_place else text, nl=not self._in_place, err=True)

    def __exit__(self, *exc: object) -> None:
        if not self._shown:
            return
        if self._in_place:
            click.echo(err=True)
        if exc[0] is None:
            click.echo(f"{self._what}: done in {time.monotonic() - self._begun:.0f} s", err=True)
