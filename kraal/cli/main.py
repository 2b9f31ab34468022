"""The `kraal` command, which is the composition root of all commands."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click
from typing_extensions import override

from kraal import __version__
from kraal.client.commands import COMMANDS
from kraal.client.lazy import Lazy, LazyGroup
from kraal.core.errors import KraalError
from kraal.core.secrets import secrets
from kraal.core.stacks import stacks_on_signal

USAGE = 1
"""Exit code for invalid usage, the same as that of Connect's scripts."""


log_format = click.option(
    "--log-format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="KRAAL_LOG_FORMAT",
    show_default=True,
    help="Format of the log on standard error (environment variable: KRAAL_LOG_FORMAT).",
)


OWN = {
    "kafka": Lazy("kraal.cli.kafka", "kafka_group"),
    "mirror": Lazy("kraal.cli.mirror", "mirror"),
    "jars": Lazy("kraal.cli.kafka", "jars_command"),
    "prepare": Lazy("kraal.cli.prepare", "prepare"),
    "new": Lazy("kraal.cli.new", "new_group"),
}

CLIENT = {**COMMANDS, "dlq": Lazy("kraal.cli.dlq", "dlq"), "ui": Lazy("kraal.cli.ui", "ui")}
"""Client commands; `dlq` also connects to Kafka, and `ui` listens."""


class Commands(LazyGroup):
    """Group that prints a KraalError as a message and exits with code 1."""

    @override
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError as exc:
            exc.show()
            raise click.exceptions.Exit(USAGE) from exc
        except KraalError as exc:
            raise click.ClickException(secrets.scrub(str(exc))) from exc

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List client commands and worker commands in separate sections."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        limit = formatter.width - 6 - max(map(len, found))
        ours = [name for name in found if name not in CLIENT]
        for title, names in (
            ("Workers", ours),
            ("Client of a running worker (Kraal or Java)", sorted(CLIENT)),
        ):
            rows = [(name, each.get_short_help_str(limit)) for name in names if (each := found[name])]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(cls=Commands, lazy={**CLIENT, **OWN}, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kraal")
def main() -> None:
    """Run Kafka Connect workers on Pykka actors and Spark, and manage running workers."""
    _check_neighbours()


@main.command("standalone")
@click.argument("worker", type=click.Path(path_type=Path), metavar="WORKER.properties")
@click.argument(
    "connectors", type=click.Path(path_type=Path), nargs=-1, metavar="[CONNECTOR.json|.properties ...]"
)
@log_format
def standalone(worker: Path, connectors: tuple[Path, ...], style: str) -> None:
    """Run a standalone worker with Connect's standalone configuration.

    Connectors are created or updated from the connector files; unchanged connectors keep running as they are.

    Exit codes: 0 stopped by a signal, 2 startup failed, 3 a connector file failed, 4 an actor died too often,
    5 shutdown timed out.
    """
    stacks_on_signal()
    # Imported late because other commands do not need it.
    from kraal.core.logging import LogFormat, log_to_stderr  # noqa: PLC0415
    from kraal.worker.process import START_FAILED  # noqa: PLC0415
    from kraal.worker.standalone import run_standalone  # noqa: PLC0415

    log_to_stderr(LogFormat(style))
    try:
        code = run_standalone(worker, connectors)
    except KraalError as exc:
        click.echo(f"Error: {secrets.scrub(str(exc))}", err=True)
        code = START_FAILED
    raise click.exceptions.Exit(code)


@main.command("distributed")
@click.argument("worker", type=click.Path(path_type=Path), metavar="WORKER.properties")
@log_format
def distributed(worker: Path, style: str) -> None:
    """Run a worker of a cluster with Connect's distributed configuration.

    Exit codes: 0 stopped by a signal, 2 startup failed, 4 an actor died too often, 5 shutdown timed out.
    """
    stacks_on_signal()
    # Imported late because other commands do not need it.
    from kraal.core.logging import LogFormat, log_to_stderr  # noqa: PLC0415
    from kraal.worker.distributed import run_distributed  # noqa: PLC0415
    from kraal.worker.process import START_FAILED  # noqa: PLC0415

    log_to_stderr(LogFormat(style))
    try:
        code = run_distributed(worker)
    except KraalError as exc:
        click.echo(f"Error: {secrets.scrub(str(exc))}", err=True)
        code = START_FAILED
    raise click.exceptions.Exit(code)


@main.command("migrate")
@click.option(
    "--from", "source", required=True, metavar="URL", help="URL of any worker of the source cluster."
)
@click.option(
    "--to",
    "target",
    default="http://127.0.0.1:8083",
    show_default=True,
    metavar="URL",
    help="URL of any worker of the target cluster.",
)
@click.option(
    "--connector",
    "names",
    multiple=True,
    metavar="NAME",
    help="Connector to migrate (repeatable; default: all).",
)
@click.option(
    "--dry-run", is_flag=True, help="Check whether the migration is possible without changing anything."
)
def migrate_command(source: str, target: str, names: tuple[str, ...], *, dry_run: bool) -> None:
    """Migrate connectors with their offsets from another Connect cluster, one by one (KIP-980).

    Each connector is stopped in the source cluster, created as STOPPED in the target cluster, given its offsets and
    started. It stays STOPPED in the source cluster.
    """
    from kraal.client.migrate import Cluster, migrate  # noqa: PLC0415 - other commands do not need it

    migrate(Cluster(source), Cluster(target), names, dry_run=dry_run, say=click.echo)


def _check_neighbours() -> None:
    """Raise KraalError if another package shadows Kraal's `actors` or `web`, whose names are generic."""
    for name in ("actors", "web"):
        ours = Path(__file__).parents[2] / name / "__init__.py"
        spec = find_spec(name)
        found = spec.origin if spec else None
        if not ours.exists():
            raise KraalError(f"Kraal's package '{name}' is missing: {ours} does not exist; reinstall Kraal.")
        if found is None or not ours.samefile(found):
            raise KraalError(
                f"Kraal's package '{name}' is shadowed by {found}; install Kraal in its own environment."
            )
