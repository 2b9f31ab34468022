"""`kraal prepare`: do the one-time setup of a machine in advance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from kraal.config.connector.java_plugins import PATH
from kraal.config.properties_file import read_properties
from kraal.core.progress import Progress
from kraal.jars.class_archive import archive_path
from kraal.jars.jars import ensure
from kraal.jars.java_module import java_class_path
from kraal.plugin_lock.start import DESCRIPTION, find_lock, load_plugins


@click.command("prepare", short_help="Prepare this machine, so that workers start faster.")
@click.argument("worker", type=click.Path(path_type=Path), required=False, metavar="[WORKER.properties]")
@click.option("--java-plugins", is_flag=True, help="Also prepare the JVM of Java plugins.")
@click.option("--mirror", is_flag=True, help="Also prepare `kraal mirror`.")
def prepare(worker: Path | None, *, java_plugins: bool, mirror: bool) -> None:
    """Download Spark's jars and archive its classes, so that workers start Spark in half the time.

    With --java-plugins, also download Kafka Connect's runtime and compile the classes that run plugins in it. With
    WORKER.properties, also list the plugins in its plugin.path. Run the command once per machine, and again when
    plugins change.
    """
    properties = {} if worker is None else read_properties(worker, DESCRIPTION)
    _archive_classes()
    if mirror:
        from kraal.worker.mirror import mirror_plugins  # noqa: PLC0415 - only if it is needed

        with Progress("Copying MirrorMaker's plugins"):
            directory = mirror_plugins()
        click.echo(f"Downloaded MirrorMaker's plugins to {directory}")
    if java_plugins or mirror:
        with Progress("Compiling the classes for Java plugins"):
            class_directory = java_class_path()[0]
        click.echo(f"Compiled the classes for Java plugins into {class_directory}")
    if worker is not None:
        _list_plugins(worker, properties)


def _archive_classes() -> None:
    archive, jars = archive_path(), ensure("spark")
    if not archive.is_file():
        from kraal.engine.session.class_archive import STEPS, create_archive  # noqa: PLC0415 - only if it is needed

        with Progress("Archiving Spark's classes (150 MB)", STEPS) as progress:
            create_archive(archive, jars, progress.set_done)
    click.echo(f"Archived Spark's classes in {archive}")


def _list_plugins(file: Path, worker: Mapping[str, str]) -> None:
    from kraal.java_plugins.discovery import plugin_path  # noqa: PLC0415 - as above
    from kraal.java_plugins.parts import prepare_plugins  # noqa: PLC0415 - as above

    lock = find_lock(worker)
    if lock is not None:
        load_plugins(lock)
    if not plugin_path(worker):
        click.echo(f"{file} has no {PATH}: there are no Java plugins to prepare")
        return
    with Progress("Looking for Java plugins"):
        count = prepare_plugins(worker)
    click.echo(
        f"Listed {count} Java plugins in {worker[PATH]} (connectors, transforms, converters and others)"
    )
