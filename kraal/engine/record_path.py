"""The choice between record path and column path for a task; the same for sources and sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.engine.kafka.dead_letters import DeadLetters, read_dead_letter_topic
from kraal.engine.records.tolerance import read_tolerance
from kraal.engine.task_plugins import make_steps

if TYPE_CHECKING:
    from kraal.engine.api import TaskSpec
    from kraal.engine.context import ExecutorContext
    from kraal.engine.records.steps import Steps
    from kraal.engine.task_plugins import Converters


def record_path(
    context: ExecutorContext, spec: TaskSpec, converters: Converters
) -> tuple[Steps, DeadLetters | None] | None:
    """Return the steps for each record and the dead letter topic; None: the column path does the same, faster.

    The record path is needed with transforms, with error handling, and with a converter that has no column form. Raises
    KraalError and ValueError for an invalid config.
    """
    config = spec.connector_config
    chain, tolerance = context.chains(config), read_tolerance(config)
    topic = read_dead_letter_topic(config)
    columns = converters.key.by_columns and converters.value.by_columns
    if columns and not chain and tolerance.is_default and topic is None:
        return None
    dead = None if topic is None else DeadLetters(topic, spec.task, context.worker, config)
    return make_steps(context.plugins, context.worker, config, converters, chain, tolerance), dead
