"""`kraal kafka`: run a local Kafka broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kraal.broker.settings import DEFAULT_PORT
from kraal.client.command import output_option
from kraal.client.output import emit
from kraal.core.progress import Progress
from kraal.jars.errors import BrokerError

if TYPE_CHECKING:
    from kraal.broker.broker import Broker

_data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory of the broker.  [default: kafka in Kraal's state directory]",
)
_port_option = click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port on 127.0.0.1.",
)


def _create_broker(data_dir: Path | None, port: int, extra: Mapping[str, str] | None = None) -> Broker:
    from kraal.broker.broker import Broker  # noqa: PLC0415 - imported late because --help does not need it

    return Broker(data_dir, port, extra=extra)


@click.group("kafka")
def kafka_group() -> None:
    """Run a local Kafka broker for development and tests."""


@kafka_group.command("start")
@_data_dir_option
@_port_option
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Setting for server.properties (repeatable).",
)
@output_option
def start(data_dir: Path | None, port: int, settings: tuple[str, ...], *, style: str) -> None:
    """Start the broker and wait until it is ready."""
    extra_properties = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.BadParameter(f"'{setting}'; expected KEY=VALUE", param_hint="--set")
        extra_properties[key.strip()] = value.strip()
    broker = _create_broker(data_dir, port, extra_properties)
    with Progress("Starting Kafka"):
        broker.start()
    _show(broker, style, pid=broker.pid, port=broker.port)


@kafka_group.command("stop")
@_data_dir_option
@_port_option
def stop(data_dir: Path | None, port: int) -> None:
    """Stop the broker that `kraal kafka start` started."""
    broker = _create_broker(data_dir, port)
    click.echo(
        "Kafka stopped" if broker.stop() else f"No broker was running with data directory {broker.data_dir}"
    )


@kafka_group.command("status", short_help="Show whether the broker is running and ready.")
@_data_dir_option
@_port_option
@output_option
def status(data_dir: Path | None, port: int, *, style: str) -> None:
    """Show whether the broker is running and ready; exit with code 0 only if it is ready."""
    broker = _create_broker(data_dir, port)
    broker_status = broker.status()
    if style != "table" or broker_status.is_ready:
        _show(
            broker,
            style,
            pid=broker_status.pid,
            port=broker_status.port,
            is_ready=broker_status.is_ready,
        )
    if broker_status.pid is None:
        text = f"No broker is running with data directory {broker.data_dir}."
        raise BrokerError(text, hint="Start one with `kraal kafka start`.")
    if not broker_status.is_ready:
        raise BrokerError(
            f"The broker (pid {broker_status.pid}) is running but does not respond on port {broker_status.port}; "
            f"see {broker.log}."
        )


def _show(broker: Broker, style: str, *, pid: int | None, port: int, is_ready: bool = True) -> None:
    """Print the status of a broker. In table style, the broker must be ready."""
    address = f"127.0.0.1:{port}"
    if style == "table":
        click.echo(f"Kafka is ready on {address} (pid {pid}, data in {broker.data_dir})")
        return
    fields = {"pid": pid, "ready": is_ready, "bootstrap_servers": address}
    emit({**fields, "data_dir": str(broker.data_dir), "log": str(broker.log)}, style)
