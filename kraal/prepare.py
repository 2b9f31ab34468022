"""`kraal prepare`: what a worker would do, or go without, when it first starts on a machine."""

from __future__ import annotations

import click

from kraal.embedded.class_archive import archive_path
from kraal.embedded.jars import ensure


@click.command("prepare")
def prepare() -> None:
    """Fetch Spark's jars and archive its classes, once a machine: workers then start Spark in half the time."""
    jars, archive = ensure("spark"), archive_path()
    if not archive.is_file():
        from kraal.spark.class_archive import make  # noqa: PLC0415 - only when it is needed

        click.echo(
            "archiving Spark's classes, once for this Java and this Spark (about 20 s, 150 MB)", err=True
        )
        make(archive, jars, lambda step: click.echo(f"  {step}", err=True))
    click.echo(f"Spark's classes are in {archive}")
