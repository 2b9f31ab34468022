"""Kafka options of `kraal dlq`, and lookup of the dead letters and replay targets that the arguments specify."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kraal.client.command import with_rest
from kraal.client.rest import RequestRejected, Rest
from kraal.config.properties_file import read_properties
from kraal.dead_letters.api import KafkaUnavailable
from kraal.dead_letters.selection import DeadLetterQueue, find_queue
from kraal.dead_letters.targets import Targets, find_targets

if TYPE_CHECKING:
    from kraal.dead_letters.kafka import Kafka

_BOOTSTRAP: Final = "bootstrap.servers"
_KAFKA_HINT: Final = (
    "Check --bootstrap-servers; specify TLS and SASL settings in the file of --command-config."
)


def on_kafka(function: Callable[..., None]) -> Callable[..., None]:
    """Add Kafka options to a command, which receives a `Rest`, and a `Kafka` (None without bootstrap servers)."""

    @click.option(
        "--bootstrap-servers",
        envvar="KRAAL_BOOTSTRAP_SERVERS",
        show_envvar=True,
        metavar="HOST:PORT,...",
        help=f"Kafka bootstrap servers (default: {_BOOTSTRAP} in --command-config, or else the worker's REST API).",
    )
    @click.option(
        "--command-config",
        "path",
        envvar="KRAAL_COMMAND_CONFIG",
        show_envvar=True,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Properties file with Kafka client configs, such as security and timeouts.",
    )
    @functools.wraps(function)
    def run(rest: Rest, *, bootstrap_servers: str | None, path: Path | None, **options: Any) -> None:
        settings = {} if path is None else read_properties(path, "client's properties file")
        if bootstrap_servers:
            settings[_BOOTSTRAP] = bootstrap_servers
        if not settings.get(_BOOTSTRAP, "").strip():
            if path is not None:
                raise click.UsageError(
                    f"Specify --bootstrap-servers, or {_BOOTSTRAP} in the file of --command-config."
                )
            function(rest, None, **options)
            return
        from kraal.dead_letters.kafka import Kafka  # noqa: PLC0415 - imported late because it requires the Kafka client

        with Kafka(settings) as kafka:
            try:
                function(rest, kafka, **options)
            except KafkaUnavailable as exc:
                exc.hint = exc.hint or _KAFKA_HINT
                raise

    return with_rest(run)


def find_connector(rest: Rest, name: str, *, is_topic: bool) -> dict[str, Any] | None:
    """Return the worker's description of a connector; None if there is no such connector, or if `is_topic`.

    Raises the errors of `Rest.ask`.
    """
    if is_topic:
        return None
    try:
        return dict(rest.get("connectors", name))
    except RequestRejected as exc:
        if not exc.is_not_found:
            raise
        return None


def find_dead_letters(
    kafka: Kafka, name: str, connector: Mapping[str, Any] | None, *, is_topic: bool
) -> DeadLetterQueue:
    """Find the dead letters of a connector or topic. Raises the errors of `find_queue`."""
    kind = "Topic" if is_topic else "Connector or topic"
    return find_queue(kafka, name, None if connector is None else connector["config"], kind)


def resolve_targets(
    rest: Rest,
    kafka: Kafka,
    connector: Mapping[str, Any] | None,
    to: str | None,
    allowed_topics: Collection[str],
) -> Targets:
    """Find the targets of a replay. Raises the errors of `find_targets` and `Rest.ask`."""
    if connector is None:
        return find_targets(kafka, None, allowed=allowed_topics, to=to)
    name, active_topics = connector["name"], ()
    with suppress(RequestRejected):  # topic.tracking.enable=false
        active_topics = rest.get("connectors", name, "topics")[name]["topics"]
    is_source = connector.get("type") == "source"
    return find_targets(
        kafka, connector["config"], is_source=is_source, active=active_topics, allowed=allowed_topics, to=to
    )
