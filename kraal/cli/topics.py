"""`kraal topics create`: the internal topics of a cluster."""

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

    The topics, their partitions, replicas and settings, and the brokers are those of WORKER.properties. Use it where
    workers may not create topics, or have internal.topics.automatic.creation.enable=false (KIP-1209).

    Exit codes: 0 all topics exist and can be used, or with --dry-run can be created; 1 failure; 2 invalid usage.
    """
    # Imported late because --help does not need them.
    from kraal.config.clients.librdkafka import librdkafka_options  # noqa: PLC0415
    from kraal.config.worker.distributed import load_distributed  # noqa: PLC0415
    from kraal.java_plugins.services import resolve_worker_config  # noqa: PLC0415
    from kraal.kafka.topics import TopicAdmin, ensure_topics, is_missing  # noqa: PLC0415
    from kraal.plugins.registry import Registry  # noqa: PLC0415
    from kraal.worker.internal_topics import internal_topics  # noqa: PLC0415

    config = load_distributed(worker, resolve=Registry.load().resolve, resolved=resolve_worker_config)
    topics = internal_topics(config)
    admin = TopicAdmin(librdkafka_options(config.own_client), client_id="kraal-topics", timeout_s=_TIMEOUT_S)
    try:
        with Progress("Looking up the internal topics" if dry_run else "Creating the internal topics"):
            if dry_run:
                new = [each.name for each in topics if is_missing(admin, each.name)]
                ensure_topics(admin, [each for each in topics if each.name not in new], create=False)
            else:
                new = ensure_topics(admin, topics)
    finally:
        admin.close()
    _show(topics, new, _TO_BE_CREATED if dry_run else _CREATED, style)


def _show(topics: list[InternalTopic], new: Collection[str], result: str, style: str) -> None:
    results = [result if each.name in new else _EXISTS for each in topics]
    if style == "table":
        rows = [(each.name, each.property, text) for each, text in zip(topics, results, strict=True)]
        emit_table(("TOPIC", "PROPERTY", "RESULT"), rows, "")
        return
    emit(
        [
            {
                "topic": each.name,
                "property": each.property,
                "partitions": each.partitions,
                "replication_factor": each.replication_factor,
                "settings": {**each.settings, "cleanup.policy": "compact"},
                "result": text,
            }
            for each, text in zip(topics, results, strict=True)
        ],
        style,
    )
