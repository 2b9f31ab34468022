"""`kraal mirror`: run MirrorMaker 2."""

from __future__ import annotations

from pathlib import Path

import click

from kraal.cli.start_errors import run_and_exit
from kraal.cli.worker import log_format_option
from kraal.core.logging import LogFormat
from kraal.core.stacks import dump_stacks_on_signal


@click.command("mirror", short_help="Run MirrorMaker 2 from its properties file.")
@click.argument("file", type=click.Path(path_type=Path), metavar="MM2.properties")
@click.option(
    "--clusters",
    multiple=True,
    metavar="CLUSTER...",
    help="Run only the flows into these target clusters (default: all).",
)
@click.argument("more_clusters", nargs=-1, metavar="")
@click.option("--flow", metavar="SOURCE->TARGET", help="Run only the worker of this flow, in this process.")
@click.option("--child", "is_child", is_flag=True, hidden=True)
@log_format_option
def mirror(
    file: Path,
    more_clusters: tuple[str, ...],
    clusters: tuple[str, ...],
    flow: str | None,
    *,
    is_child: bool,
    log_format: str,
) -> None:
    """Run MirrorMaker 2 from its properties file, as Kafka's connect-mirror-maker.sh does.

    Each flow from one cluster to another has a worker, which runs MirrorMaker's own connectors in a JVM.

    Exit codes: 0 stopped by a signal, 1 invalid command line, 2 startup failed, 4 an actor died too often,
    5 shutdown timed out.
    """
    if more_clusters and not clusters:
        raise click.UsageError(
            f"Unexpected argument '{more_clusters[0]}'; target clusters follow --clusters."
        )
    if flow is not None and clusters:
        raise click.UsageError("--flow cannot be combined with --clusters.")
    dump_stacks_on_signal()
    # Imported late because --help does not need it.
    from kraal.worker.mirror import run_mirror  # noqa: PLC0415

    parsed_format = LogFormat(log_format)
    targets = (*clusters, *more_clusters)
    run_and_exit(
        lambda: run_mirror(file, targets=targets, flow=flow, is_child=is_child, log_format=parsed_format),
        parsed_format,
    )
