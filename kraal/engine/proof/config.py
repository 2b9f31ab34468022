"""Settings of a connector and of its consumers that differ for its proof."""

from __future__ import annotations

from typing import Final

from kraal.core.ids import ConnectorName
from kraal.engine.client_options import proof_client_id

WITHOUT_SIDE_EFFECTS: Final = {"errors.log.enable": "false", "errors.deadletterqueue.topic.name": ""}
"""Config keys of a proof, which neither logs errors nor writes dead letters."""


def with_client_id(options: dict[str, str], name: ConnectorName) -> dict[str, str]:
    """Return the options of Spark's Kafka reader for a proof, with the client id of its other consumers."""
    return options | {"kafka.client.id": proof_client_id(name)}
