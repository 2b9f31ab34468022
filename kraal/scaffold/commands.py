"""`kraal new`."""

from __future__ import annotations

from pathlib import Path

import click

from kraal.scaffold.project import Kind, Names, write_project


@click.group("new")
def new_group() -> None:
    """Write the project of something new."""


@new_group.command("connector")
@click.argument("name")
@click.option("--source", "kind", flag_value="source", default=True, help="It reads into Kafka.  [default]")
@click.option("--sink", "kind", flag_value="sink", help="It writes from Kafka.")
@click.option(
    "--in",
    "parent",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    help="Where the project's directory is made.  [default: here]",
)
def connector(name: str, kind: Kind, parent: Path) -> None:
    """Write the project of a connector NAME, such as my-orders: a package with an entry point, and a test that runs.

    Nothing that is there is overwritten. docs/plugin-howto.md goes on from there.
    """
    names = Names.of(name, kind)
    directory = write_project(parent, names, kind)
    click.echo(f"{directory} has {names.class_name}. Its test: cd {directory} && python -m pytest")
