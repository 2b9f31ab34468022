"""`kraal kafka` and `kraal jars`."""

from __future__ import annotations

from pathlib import Path

import click

from kraal.broker.broker import DEFAULT_PORT, Broker
from kraal.jars import jars
from kraal.jars.errors import BrokerError

_data_dir = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory of the broker.  [default: kafka in Kraal's state directory]",
)
_port = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port on 127.0.0.1.",
)


@click.group("kafka")
def kafka_group() -> None:
    """Run a local Kafka broker for development and tests."""


@kafka_group.command("start")
@_data_dir
@_port
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting for server.properties (repeatable).",
)
def start(data_dir: Path | None, port: int, settings: tuple[str, ...]) -> None:
    """Start the broker and wait until it is ready."""
    extra = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.BadParameter(f"'{setting}'; expected KEY=VALUE", param_hint="--set")
        extra[key.strip()] = value.strip()
    broker = Broker(data_dir, port, extra=extra)
    broker.start()
    click.echo(f"Kafka is ready on {broker.bootstrap} (pid {broker.pid}, data in {broker.data_dir})")


@kafka_group.command("stop")
@_data_dir
@_port
def stop(data_dir: Path | None, port: int) -> None:
    """Stop the broker that `kraal kafka start` started."""
    broker = Broker(data_dir, port)
    click.echo(
        "Kafka stopped" if broker.stop() else f"No broker was running with data directory {broker.data_dir}"
    )


@kafka_group.command("status")
@_data_dir
@_port
def status(data_dir: Path | None, port: int) -> None:
    """Show whether the broker is running and ready; exit with code 0 only if it is."""
    broker = Broker(data_dir, port)
    now = broker.status()
    if now.pid is None:
        raise BrokerError(f"No broker is running with data directory {broker.data_dir}.")
    if not now.answers:
        raise BrokerError(
            f"The broker (pid {now.pid}) is running but does not respond on port {now.port}; see {broker.log}."
        )
    click.echo(f"Kafka is ready on 127.0.0.1:{now.port} (pid {now.pid}, data in {broker.data_dir})")


@click.command("jars")
@click.argument("groups", nargs=-1)
@click.option("--classpath", is_flag=True, help="Print the jars as a class path for java -cp.")
def jars_command(groups: tuple[str, ...], *, classpath: bool) -> None:
    """Download and verify the jars of GROUPS: broker, spark, connect.  [default: broker spark]."""
    paths = [path for group in groups or ("broker", "spark") for path in jars.ensure(group)]
    if classpath:
        click.echo(":".join(map(str, dict.fromkeys(paths))))
    else:
        click.echo(f"{len(set(paths))} jars in {paths[0].parent}")
