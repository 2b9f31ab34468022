"""`kraal delete`: delete connectors."""

from __future__ import annotations

import click

from kraal.client.command import (
    ClientCommand,
    exit_with_status,
    for_each,
    names_argument,
    with_rest,
)
from kraal.client.file_options import (
    read_files,
    recursive_option,
)
from kraal.client.output import say
from kraal.client.rest import RequestRejected, Rest


@click.command(
    "delete",
    cls=ClientCommand,
    short_help="Delete connectors but keep their offsets.",
    examples=(
        "kraal delete orders-source",
        "kraal delete -f connectors/ --ignore-missing",
    ),
)
@names_argument
@click.option(
    "-f",
    "--file",
    "paths",
    multiple=True,
    metavar="FILE_OR_DIR",
    help="Delete the connectors in these files; see `kraal apply --help`.",
)
@recursive_option
@click.option("--ignore-missing", is_flag=True, help="Ignore connectors that do not exist.")
@with_rest
def delete(
    rest: Rest, names: tuple[str, ...], *, paths: tuple[str, ...], recursive: bool, ignore_missing: bool
) -> None:
    """Delete connectors with their configs and tasks.

    Offsets are kept; a new connector with the same name continues from them.
    """
    manifests = read_files(paths, recursive=recursive)
    if not names and not paths:
        raise click.UsageError("Specify connector names or -f.")

    def send(name: str) -> None:
        rest.ask("DELETE", "connectors", name)
        say(f"{name} deleted")

    def is_ignored(error: RequestRejected) -> bool:
        return ignore_missing and error.is_not_found

    succeeded = for_each(
        [*names, *(manifest.name for manifest in manifests.connectors)], send, ignore=is_ignored
    )
    exit_with_status(succeeded=succeeded and not manifests.errors)
