"""Settings of a connector and of its consumers that differ for its proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.core.ids import ConnectorName
from kraal.engine.client_options import proof_client_id, range_options, written_topics_settings
from kraal.engine.sink.range_reader import RangeReader

WITHOUT_SIDE_EFFECTS: Final = {"errors.log.enable": "false", "errors.deadletterqueue.topic.name": ""}
"""Config keys of a proof, which neither logs errors nor writes dead letters."""


def with_client_id(options: dict[str, str], name: ConnectorName) -> dict[str, str]:
    """Return the options of Spark's Kafka reader for a proof, with the client id of its other consumers."""
    return options | {"kafka.client.id": proof_client_id(name)}


def make_topics_reader(
    worker: Mapping[str, str], connector: Mapping[str, str], name: ConnectorName, *, skips_lost_offsets: bool
) -> RangeReader:
    """Return the reader of the committed records in the topics that a source writes to. Raises ConfigInvalid."""
    options = range_options(written_topics_settings(worker, connector), proof_client_id(name))
    options["kafka.isolation.level"] = "read_committed"
    return RangeReader(with_client_id(options, name), skips_lost_offsets=skips_lost_offsets)
