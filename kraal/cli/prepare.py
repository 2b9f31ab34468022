"""`kraal prepare`: do the one-time work of the first worker on a machine in advance."""

from __future__ import annotations

import click

from kraal.jars.class_archive import archive_path
from kraal.jars.jars import ensure


@click.command("prepare")
def prepare() -> None:
    """Download Spark's jars and archive its classes, so that workers start Spark in half the time.

    Run it once per machine.
    """
    jars, archive = ensure("spark"), archive_path()
    if not archive.is_file():
        from kraal.engine.session.class_archive import make  # noqa: PLC0415 - only if it is needed

        click.echo(
            "Archiving Spark's classes, once for this version of Java and Spark (about 20 s, 150 MB)",
            err=True,
        )
        make(archive, jars, lambda step: click.echo(f"  {step}", err=True))
    click.echo(f"Archived Spark's classes in {archive}")
