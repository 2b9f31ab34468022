"""Why a worker did not start, on standard error."""

from __future__ import annotations

import logging

import click

from kraal.core.errors import KraalError
from kraal.core.logging import LogFormat
from kraal.core.secrets import secrets

log = logging.getLogger("kraal")


def print_start_error(error: KraalError, style: LogFormat) -> None:
    """Print the error as a line of the log if that is JSON, which programs read; else on one line for people."""
    if style is LogFormat.JSON:
        log.error("Failed to start: %s", error)
    else:
        click.echo(f"Error: {secrets.scrub(str(error))}", err=True)
