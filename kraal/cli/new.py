"""`kraal new`: create a connector project."""

from __future__ import annotations

from pathlib import Path

import click

from kraal.scaffold.project import Kind, Names, write_project


@click.group("new")
def new_group() -> None:
    """Create a project for a connector."""


@new_group.command("connector", short_help="Create a project for a connector, with a test.")
@click.argument("name")
@click.option(
    "--source", "kind", flag_value="source", default=True, help="Create a source connector.  [default]"
)
@click.option("--sink", "kind", flag_value="sink", help="Create a sink connector.")
@click.option(
    "--in",
    "parent",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    help="Parent directory of the project.  [default: current directory]",
)
def connector(name: str, kind: Kind, parent: Path) -> None:
    """Create a project for a connector NAME, such as my-orders: a package with an entry point and a working test.

    Existing files are not overwritten. See docs/plugin-howto.md for the next steps.
    """
    names = Names.of(name, kind)
    directory = write_project(parent, names, kind)
    click.echo(f"Created {names.class_name} in {directory}. Run its test: cd {directory} && python -m pytest")
