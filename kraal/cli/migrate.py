"""`kraal migrate`."""

from __future__ import annotations

import click

from kraal.client.migrate import Cluster, migrate


@click.command("migrate", short_help="Migrate connectors from another Connect cluster.")
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
    migrate(Cluster(source), Cluster(target), names, dry_run=dry_run, say=click.echo)
