"""`kraal standalone`, `kraal distributed`: run a worker."""

from __future__ import annotations

from pathlib import Path

import click

from kraal.cli.start_errors import run_and_exit
from kraal.core.logging import LogFormat
from kraal.core.stacks import dump_stacks_on_signal

log_format_option = click.option(
    "--log-format",
    "log_format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="KRAAL_LOG_FORMAT",
    show_default=True,
    help="Format of the log on standard error (environment variable: KRAAL_LOG_FORMAT).",
)


@click.command("standalone", short_help="Run a standalone worker.")
@click.argument("worker", type=click.Path(path_type=Path), metavar="WORKER.properties")
@click.argument(
    "connectors", type=click.Path(path_type=Path), nargs=-1, metavar="[CONNECTOR.json|.properties ...]"
)
@log_format_option
def standalone(worker: Path, connectors: tuple[Path, ...], log_format: str) -> None:
    """Run a standalone worker with Connect's standalone configuration.

    Connectors are created or updated from the connector files, unless their configs are unchanged.

    Exit codes: 0 stopped by a signal, 1 invalid command line, 2 startup failed, 3 a connector file failed, 4 an actor
    died too often, 5 shutdown timed out.
    """
    dump_stacks_on_signal()
    # Imported late because --help does not need it.
    from kraal.worker.standalone import run_standalone  # noqa: PLC0415

    run_and_exit(lambda: run_standalone(worker, connectors), LogFormat(log_format), worker_file=worker)


@click.command("distributed", short_help="Run a worker of a cluster.")
@click.argument("worker", type=click.Path(path_type=Path), metavar="WORKER.properties")
@log_format_option
def distributed(worker: Path, log_format: str) -> None:
    """Run a worker of a cluster with Connect's distributed configuration.

    Exit codes: 0 stopped by a signal, 1 invalid command line, 2 startup failed, 4 an actor died too often, 5 shutdown
    timed out.
    """
    dump_stacks_on_signal()
    # Imported late because --help does not need it.
    from kraal.worker.distributed import run_distributed  # noqa: PLC0415

    run_and_exit(lambda: run_distributed(worker), LogFormat(log_format), worker_file=worker)
