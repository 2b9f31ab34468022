"""The `kraal` command: the composition root, the one module that knows everything."""

from __future__ import annotations

import click
from typing_extensions import override

from kraal import __version__
from kraal.embedded.commands import jars_command, kafka_group
from kraal.errors import KraalError


class Commands(click.Group):
    """A group in which any of our errors ends the command with its sentence and exit code 1."""

    @override
    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KraalError as exc:
            raise click.ClickException(str(exc)) from exc


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kraal")
def main() -> None:
    """Run Kafka Connect pipelines on pykka actors and Spark."""


main.add_command(kafka_group)
main.add_command(jars_command)
