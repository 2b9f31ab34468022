"""Whether a task's records are handled one by one, and by what; the same for sources and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.spark.dead_letters import DeadLetters, read_dead_letter_topic
from kraal.spark.plugins import make_steps
from kraal.spark.records.tolerance import read_tolerance

if TYPE_CHECKING:
    from kraal.spark.api import TaskSpec
    from kraal.spark.plugins import Converters
    from kraal.spark.records.steps import Steps
    from kraal.spark.source_run import Means


def record_path(
    means: Means, spec: TaskSpec, converters: Converters
) -> tuple[Steps, DeadLetters | None] | None:
    """Return the steps of each record and where dead letters go; None: columns do the same, and faster.

    Records go one by one with transforms, where there is something to do about errors, and where a converter knows no
    columns. Raises KraalError and ValueError for a config that is wrong.
    """
    config = spec.connector_config
    chain, tolerance = means.chains(config), read_tolerance(config)
    topic = read_dead_letter_topic(config)
    columns = converters.key.by_columns and converters.value.by_columns
    if columns and not chain and tolerance.is_default and topic is None:
        return None
    dead = None if topic is None else DeadLetters(topic, spec.task, means.worker, config)
    return make_steps(means.plugins, means.worker, config, converters, chain, tolerance), dead
