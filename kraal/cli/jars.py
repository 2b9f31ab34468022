"""`kraal jars`."""

from __future__ import annotations

import click

from kraal.jars import jars


@click.command("jars", short_help="Download and verify jars of Kafka and Spark.")
@click.argument("groups", nargs=-1)
@click.option("--classpath", is_flag=True, help="Print the jars as a class path for java -cp.")
def jars_command(groups: tuple[str, ...], *, classpath: bool) -> None:
    """Download and verify the jars of GROUPS: broker, spark, connect.  [default: broker spark]."""
    paths = [path for group in groups or ("broker", "spark") for path in jars.ensure(group)]
    if classpath:
        click.echo(":".join(map(str, dict.fromkeys(paths))))
    else:
        click.echo(f"{len(set(paths))} jars in {paths[0].parent}")
