"""`kraal migrate`: migrate connectors from another cluster."""

from __future__ import annotations

from typing import Any

import click

from kraal.client.command import ClientCommand, output_option
from kraal.client.migrate import Cluster, Plan, migrate, migrate_all, plan_all
from kraal.client.output import emit, say


@click.command(
    "migrate",
    cls=ClientCommand,
    short_help="Migrate connectors from another Connect cluster.",
    examples=(
        "kraal migrate --from http://java:8083 --dry-run",
        "kraal migrate --from http://java:8083 --to http://kraal:8083 --connector orders",
    ),
)
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
@output_option
def migrate_command(source: str, target: str, names: tuple[str, ...], *, dry_run: bool, style: str) -> None:
    """Migrate connectors with their offsets from another Connect cluster, one by one (KIP-980).

    Each connector is stopped in the source cluster, created as STOPPED in the target cluster, given its offsets and
    started. It stays STOPPED in the source cluster. With -o json or yaml, a failure still prints which connectors were
    already migrated.
    """
    clusters = Cluster(source), Cluster(target)
    if style == "table":
        migrate(*clusters, names, dry_run=dry_run, say=say)
        return
    plans = plan_all(*clusters, names)
    migrated_plans: list[Plan] = []
    try:
        if not dry_run:
            migrate_all(*clusters, plans, say=lambda _: None, on_migrated=migrated_plans.append)
    finally:
        emit([_as_data(plan, is_migrated=plan in migrated_plans) for plan in plans], style)


def _as_data(plan: Plan, *, is_migrated: bool) -> dict[str, Any]:
    return {
        "name": plan.name,
        "state": plan.state,
        "created_by_an_earlier_attempt": plan.is_resumed,
        "migrated": is_migrated,
    }
