"""The `kraal` command."""

from __future__ import annotations

import click
from typing_extensions import override

from kraal import __version__
from kraal.cli.extras import missing_text
from kraal.cli.neighbours import check_neighbours
from kraal.client.commands import COMMANDS
from kraal.client.lazy import LazyCommand, LazyGroup
from kraal.core.errors import KraalError, format_with_hint
from kraal.core.secrets import secrets

WORKER_COMMANDS = {
    "standalone": LazyCommand("kraal.cli.worker", "standalone", "Run a standalone worker."),
    "distributed": LazyCommand("kraal.cli.worker", "distributed", "Run a worker of a cluster."),
    "mirror": LazyCommand("kraal.cli.mirror", "mirror", "Run MirrorMaker 2 from its properties file."),
    "migrate": LazyCommand(
        "kraal.cli.migrate", "migrate_command", "Migrate connectors from another Connect cluster."
    ),
    "kafka": LazyCommand(
        "kraal.cli.kafka", "kafka_group", "Run a local Kafka broker for development and tests."
    ),
    "jars": LazyCommand("kraal.cli.jars", "jars_command", "Download and verify jars of Kafka and Spark."),
    "doctor": LazyCommand("kraal.cli.doctor", "doctor", "Check a worker's requirements and suggest fixes."),
    "prepare": LazyCommand(
        "kraal.cli.prepare", "prepare", "Prepare this machine, so that workers start faster."
    ),
    "new": LazyCommand("kraal.cli.new", "new_group", "Create a project for a connector."),
}

WORKERS = ("standalone", "distributed", "mirror")
USAGE_EXIT_CODE = 1
"""Exit code for invalid usage of commands that run workers, as in Connect's scripts; 2 means that startup failed."""

CLIENT_COMMANDS = {
    **COMMANDS,
    "dlq": LazyCommand("kraal.cli.dlq", "dlq", "Show and replay dead letters."),
    "ui": LazyCommand("kraal.cli.ui", "ui", "Serve a dashboard for a Connect cluster."),
}
"""Client commands; `dlq` also connects to Kafka, and `ui` runs a server."""


class Commands(LazyGroup):
    """Group that prints a KraalError or a missing extra as a message and exits with code 1.

    Invalid usage exits with click's code 2, except for the commands that run workers.
    """

    @override
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as exc:
            if ctx.invoked_subcommand not in WORKERS:
                raise
            exc.show()
            raise click.exceptions.Exit(USAGE_EXIT_CODE) from exc
        except KraalError as exc:
            raise click.ClickException(secrets.scrub(format_with_hint(exc))) from exc
        except ModuleNotFoundError as exc:
            text = missing_text(exc.name, ctx.invoked_subcommand)
            if text is None:
                raise
            raise click.ClickException(text) from exc

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write client commands and worker commands to separate sections."""
        self.write_commands(formatter, "Workers", sorted(WORKER_COMMANDS))
        self.write_commands(formatter, "Client of a running worker (Kraal or Java)", sorted(CLIENT_COMMANDS))


@click.group(
    cls=Commands,
    lazy={**CLIENT_COMMANDS, **WORKER_COMMANDS},
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="kraal")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Run Kafka Connect workers on Pykka actors and Spark, and manage running workers."""
    # Imported late because --help does not need it.
    from kraal.client.terminal.colors import context_color  # noqa: PLC0415

    ctx.color = context_color()
    check_neighbours()
