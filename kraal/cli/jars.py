"""`kraal jars`: download and verify jars."""

from __future__ import annotations

import click

from kraal.client.command import output_option
from kraal.client.output import emit
from kraal.jars import jars


@click.command("jars", short_help="Download and verify jars of Kafka and Spark.")
@click.argument("groups", nargs=-1)
@click.option("--classpath", is_flag=True, help="Print the jars as a class path for java -cp.")
@output_option
def jars_command(groups: tuple[str, ...], *, classpath: bool, style: str) -> None:
    """Download and verify the jars of GROUPS: broker, spark, connect.  [default: broker spark]."""
    if classpath and style != "table":
        raise click.UsageError("--classpath cannot be combined with -o.")
    group_jars = [(group, path) for group in groups or ("broker", "spark") for path in jars.ensure(group)]
    paths = [path for _, path in group_jars]
    if classpath:
        click.echo(":".join(map(str, dict.fromkeys(paths))))
    elif style != "table":
        emit([{"group": group, "path": str(path)} for group, path in group_jars], style)
    else:
        click.echo(f"{len(set(paths))} jars in {paths[0].parent}")
