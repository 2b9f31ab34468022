"""`kraal kafka` and `kraal jars`."""

from __future__ import annotations

from pathlib import Path

import click

from kraal.embedded import jars
from kraal.embedded.broker import DEFAULT_PORT, Broker
from kraal.embedded.errors import BrokerError

_data_dir = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the broker's data is.  [default: kafka in Kraal's state directory]",
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
    """Run a real Kafka broker on this machine, to develop and test with."""


@kafka_group.command("start")
@_data_dir
@_port
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting for server.properties."
)
def start(data_dir: Path | None, port: int, settings: tuple[str, ...]) -> None:
    """Start the broker, and return when it answers."""
    extra = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.BadParameter(f"{setting} is not KEY=VALUE", param_hint="--set")
        extra[key.strip()] = value.strip()
    broker = Broker(data_dir, port, extra=extra)
    broker.start()
    click.echo(f"Kafka answers on {broker.bootstrap} (pid {broker.pid}, data in {broker.data_dir})")


@kafka_group.command("stop")
@_data_dir
@_port
def stop(data_dir: Path | None, port: int) -> None:
    """Stop the broker that `kraal kafka start` started, and nothing else."""
    broker = Broker(data_dir, port)
    click.echo(
        "Kafka has stopped" if broker.stop() else f"No broker was running with its data in {broker.data_dir}"
    )


@kafka_group.command("status")
@_data_dir
@_port
def status(data_dir: Path | None, port: int) -> None:
    """Say whether the broker runs and answers; exit code 0 only if it does both."""
    broker = Broker(data_dir, port)
    now = broker.status()
    if now.pid is None:
        raise BrokerError(f"No broker is running with its data in {broker.data_dir}.")
    if not now.answers:
        raise BrokerError(
            f"The broker (pid {now.pid}) runs but does not answer on port {now.port}: see {broker.log}."
        )
    click.echo(f"Kafka answers on 127.0.0.1:{now.port} (pid {now.pid}, data in {broker.data_dir})")


@click.command("jars")
@click.argument("groups", nargs=-1)
@click.option("--classpath", is_flag=True, help="Print the jars as Java's -cp wants them.")
def jars_command(groups: tuple[str, ...], *, classpath: bool) -> None:
    """Fetch and check the jars of GROUPS: broker, spark, connect.  [default: broker spark]."""
    paths = [path for group in groups or ("broker", "spark") for path in jars.ensure(group)]
    if classpath:
        click.echo(":".join(map(str, dict.fromkeys(paths))))
    else:
        click.echo(f"{len(set(paths))} jars are in {paths[0].parent}")
