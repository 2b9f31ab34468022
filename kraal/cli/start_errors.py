"""Running a worker until it ends, and why it did not start, on standard error."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NoReturn

import click

from kraal.core.errors import KraalError
from kraal.core.logging import LogFormat, log_to_stderr
from kraal.core.secrets import secrets

log = logging.getLogger("kraal")


def print_start_error(error: KraalError, style: LogFormat) -> None:
    """Print the error as a line of the log if that is JSON, which programs read; else on one line for people."""
    if style is LogFormat.JSON:
        log.error("Failed to start: %s", error)
    else:
        click.echo(f"Error: {secrets.scrub(str(error))}", err=True)


def run_and_exit(run: Callable[[], int], style: LogFormat) -> NoReturn:
    """Run a worker with its log on standard error, and exit with its code, or that of a failed start."""
    from kraal.worker.process import START_FAILED  # noqa: PLC0415 - late, because --help does not need it

    log_to_stderr(style)
    try:
        code = run()
    except KraalError as exc:
        print_start_error(exc, style)
        code = START_FAILED
    raise click.exceptions.Exit(code)
