"""The `kraal` command: the composition root, the one module that knows everything."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click
from typing_extensions import override

from kraal import __version__
from kraal.client.commands import COMMANDS
from kraal.commands import Lazy, LazyGroup
from kraal.errors import KraalError
from kraal.secrets import secrets
from kraal.stacks import stacks_on_signal

USAGE = 1
"""Exit code for a command line that cannot be understood, as Connect's scripts have it."""


log_format = click.option(
    "--log-format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="KRAAL_LOG_FORMAT",
    show_default=True,
    help="How the log is written to standard error. Also by KRAAL_LOG_FORMAT.",
)


OWN = {
    "kafka": Lazy("kraal.embedded.commands", "kafka_group"),
    "jars": Lazy("kraal.embedded.commands", "jars_command"),
    "prepare": Lazy("kraal.prepare", "prepare"),
    "new": Lazy("kraal.scaffold.commands", "new_group"),
}

CLIENT = {**COMMANDS, "dlq": Lazy("kraal.dlq.commands", "dlq")}
"""What asks running workers, in the order in which help shows it; dead letters also ask Kafka."""


class Commands(LazyGroup):
    """A group in which any of our errors ends the command with its sentence and exit code 1."""

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
        """List what asks a running worker apart from what runs one."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        limit = formatter.width - 6 - max(map(len, found))
        ours = [name for name in found if name not in CLIENT]
        for title, names in (("Workers", ours), ("Client of a running worker, also of Java's", [*CLIENT])):
            rows = [(name, each.get_short_help_str(limit)) for name in names if (each := found[name])]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(cls=Commands, lazy={**CLIENT, **OWN}, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kraal")
def main() -> None:
    """Run Kafka Connect pipelines on pykka actors and Spark, and ask workers that run."""
    _check_neighbours()


@main.command("standalone")
@click.argument("worker", type=click.Path(path_type=Path), metavar="WORKER.properties")
@click.argument(
    "connectors", type=click.Path(path_type=Path), nargs=-1, metavar="[CONNECTOR.json|.properties ...]"
)
@log_format
def standalone(worker: Path, connectors: tuple[Path, ...], style: str) -> None:
    """Run one worker on its own, with Connect's standalone configuration.

    Each connector file names the config that is wanted: what is so already stays, another config replaces it.
    Exit codes: 0 ended by a signal, 2 could not start, 3 a connector file failed, 4 an actor died too often.
    """
    stacks_on_signal()
    # Imported late: other commands need none of it.
    from kraal.logs import LogFormat, log_to_stderr  # noqa: PLC0415
    from kraal.process import START_FAILED  # noqa: PLC0415
    from kraal.standalone import run_standalone  # noqa: PLC0415

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
    """Run one worker of a cluster, with Connect's distributed configuration.

    Exit codes: 0 ended by a signal, 2 could not start, 4 an actor died too often.
    """
    stacks_on_signal()
    # Imported late: other commands need none of it.
    from kraal.distributed import run_distributed  # noqa: PLC0415
    from kraal.logs import LogFormat, log_to_stderr  # noqa: PLC0415
    from kraal.process import START_FAILED  # noqa: PLC0415

    log_to_stderr(LogFormat(style))
    try:
        code = run_distributed(worker)
    except KraalError as exc:
        click.echo(f"Error: {secrets.scrub(str(exc))}", err=True)
        code = START_FAILED
    raise click.exceptions.Exit(code)


@main.command("migrate")
@click.option(
    "--from", "source", required=True, metavar="URL", help="Any worker of the cluster to take from."
)
@click.option(
    "--to",
    "target",
    default="http://127.0.0.1:8083",
    show_default=True,
    metavar="URL",
    help="Any worker here.",
)
@click.option(
    "--connector", "names", multiple=True, metavar="NAME", help="Which; all, unless given. Repeatable."
)
@click.option("--dry-run", is_flag=True, help="Look whether it can be done, and change nothing.")
def migrate_command(source: str, target: str, names: tuple[str, ...], *, dry_run: bool) -> None:
    """Take connectors over from another Connect cluster, one by one, with their offsets (KIP-980).

    Each is stopped there, created here STOPPED, given its offsets, and started here; it stays STOPPED there.
    """
    from kraal.migrate import Cluster, migrate  # noqa: PLC0415 - other commands need none of it

    migrate(Cluster(source), Cluster(target), names, dry_run=dry_run, say=click.echo)


def _check_neighbours() -> None:
    """Stop when another package hides our `actors` or `web`: the names are generic, and so are the symptoms."""
    for name in ("actors", "web"):
        ours = Path(__file__).parent.parent / name / "__init__.py"
        spec = find_spec(name)
        found = spec.origin if spec else None
        if not ours.exists():
            raise KraalError(
                f"Kraal's package {name} is missing: {ours} does not exist; install Kraal again."
            )
        if found is None or not ours.samefile(found):
            raise KraalError(
                f"Kraal's package {name} is hidden by {found}: give Kraal an environment of its own."
            )
