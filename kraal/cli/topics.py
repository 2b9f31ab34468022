"""`kraal topics create`: create the internal topics of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from kraal.client.command import output_option
from kraal.client.output import emit, emit_table
from kraal.core.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Collection

    from kraal.kafka.topics import InternalTopic

_TIMEOUT_S: Final = 10.0
_CREATED, _TO_BE_CREATED, _EXISTS = "created", "to be created", "exists"


@click.command("create", short_help="Create the missing internal topics of a worker.")
@click.argument("worker", type=click.Path(path_type=Path), metavar="WORKER.properties")
@click.option("--dry-run", is_flag=True, help="Only show which topics are missing.")
@output_option
def create(worker: Path, *, dry_run: bool, style: str) -> None:
    """Create the missing internal topics of a distributed worker, as the worker does, and check the others.

    The topics, their partitions, replicas and settings, and the brokers are taken from WORKER.properties. Use this
    command if workers are not allowed to create topics, or have internal.topics.automatic.creation.enable=false
    (KIP-1209).

    Exit codes: 0 all topics can be used (with --dry-run: all topics that exist); 1 failure; 2 invalid usage.
    """
    # Imported late because --help does not need them.
    from kraal.config.clients.librdkafka import librdkafka_options  # noqa: PLC0415
    from kraal.config.worker.distributed import load_distributed  # noqa: PLC0415
    from kraal.java_plugins.services import resolve_worker_config  # noqa: PLC0415
    from kraal.kafka.topics import TopicAdmin, ensure_topics, is_missing  # noqa: PLC0415
    from kraal.plugins.registry import Registry  # noqa: PLC0415
    from kraal.worker.internal_topics import internal_topics, ledger_topic  # noqa: PLC0415

    config = load_distributed(
        worker, resolve=Registry.load().resolve, resolve_variables=resolve_worker_config
    )
    topics = internal_topics(config)
    if config.ledger_topic is not None:
        topics.append(ledger_topic(config.ledger_topic))
    admin = TopicAdmin(librdkafka_options(config.own_client), client_id="kraal-topics", timeout_s=_TIMEOUT_S)
    try:
        with Progress("Looking up the internal topics" if dry_run else "Creating the internal topics"):
            if dry_run:
                new_topics = [topic.name for topic in topics if is_missing(admin, topic.name)]
                ensure_topics(
                    admin, [topic for topic in topics if topic.name not in new_topics], create=False
                )
            else:
                new_topics = ensure_topics(admin, topics)
    finally:
        admin.close()
    _show(topics, new_topics, _TO_BE_CREATED if dry_run else _CREATED, style)


def _show(topics: list[InternalTopic], new_topics: Collection[str], result: str, style: str) -> None:
    results = [result if topic.name in new_topics else _EXISTS for topic in topics]
    if style == "table":
        rows = [(topic.name, topic.property, text) for topic, text in zip(topics, results, strict=True)]
        emit_table(("TOPIC", "PROPERTY", "RESULT"), rows, "")
        return
    emit(
        [
            {
                "topic": topic.name,
                "property": topic.property,
                "partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "settings": {**topic.settings, "cleanup.policy": "compact"},
                "result": text,
            }
            for topic, text in zip(topics, results, strict=True)
        ],
        style,
    )
