"""Runs a worker to completion, and prints startup errors to standard error."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from kraal.core.errors import BadRequest, KraalError, format_with_hint
from kraal.core.logging import LogFormat, log_to_stderr
from kraal.core.secrets import secrets

log = logging.getLogger("kraal")


def print_start_error(error: KraalError, log_format: LogFormat) -> None:
    """Print an error with its hint, as a log line if the log format is JSON."""
    if log_format is LogFormat.JSON:
        log.error("Failed to start: %s", error)
    else:
        click.echo(f"Error: {secrets.scrub(format_with_hint(error))}", err=True)


def run_and_exit(
    run: Callable[[], int], log_format: LogFormat, *, worker_file: Path | None = None
) -> NoReturn:
    """Run a worker that logs to standard error, and exit with its exit code, or START_FAILED after a KraalError.

    `worker_file` is the worker's properties file, which `kraal doctor` can check.
    """
    from kraal.worker.process import START_FAILED  # noqa: PLC0415 - late, because --help does not need it

    log_to_stderr(log_format)
    try:
        code = run()
    except KraalError as exc:
        is_config_error = isinstance(exc, BadRequest)  # the message already names the invalid setting
        if worker_file is not None and not is_config_error and not exc.hint:
            exc.hint = (
                f"`kraal doctor {shlex.quote(str(worker_file))}` checks the requirements of this worker."
            )
        print_start_error(exc, log_format)
        code = START_FAILED
    raise click.exceptions.Exit(code)
