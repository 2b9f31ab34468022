"""The choice between the record path and the column path for a source or sink task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraal.engine.kafka_io.dead_letter_writer import DeadLetters, read_dead_letter_topic
from kraal.engine.records.tolerance import read_tolerance
from kraal.engine.task_plugins import make_steps
from kraal.plugins.transform_chain import Chain

if TYPE_CHECKING:
    from kraal.engine.api import TaskSpec
    from kraal.engine.context import ExecutorContext
    from kraal.engine.records.steps import Steps
    from kraal.engine.task_plugins import Converters


_REMOTE_REASON: Final = (
    "which are processed in the JVM of Java plugins because of Java transforms or converters"
)
_SPARK_NOT_LOCAL: Final = (
    "A Python connector can use Java transforms and converters only if Spark runs on the worker's machine; set "
    "spark.master=local[*], or use only Python plugins."
)


@dataclass(frozen=True, slots=True)
class RecordPath:
    """The record path of a task: its steps, its dead letters, and why the column path does not apply."""

    steps: Steps
    dead_letters: DeadLetters | None
    why: str | None
    """Why records must take the record path; None if the column path has the same result and is faster."""


def record_path(context: ExecutorContext, spec: TaskSpec, converters: Converters) -> RecordPath:
    """Return the record path of a task.

    Transforms, error handling and converters without a column form require the record path. Raises KraalError and
    ValueError for an invalid config.
    """
    config = spec.connector_config
    tolerance, topic = read_tolerance(config), read_dead_letter_topic(config)
    dead_letters = None if topic is None else DeadLetters(topic, spec.task, context.worker, config)
    if spec.chain is not None:
        if not context.view.spark_is_local:
            raise ValueError(_SPARK_NOT_LOCAL)
        unused_steps = make_steps(context.plugins, {}, {}, converters, Chain(), tolerance)
        return RecordPath(unused_steps, dead_letters, _REMOTE_REASON)
    chain = context.chains(config)
    reasons = {
        "transforms": bool(chain),
        "errors.* keys": not tolerance.is_default or topic is not None,
        "the key converter": not converters.key.by_columns,
        "the value converter": not converters.value.by_columns,
    }
    causes = [reason for reason, applies in reasons.items() if applies]
    steps = make_steps(context.plugins, context.worker, config, converters, chain, tolerance)
    why = f"which are processed one by one because of {' and '.join(causes)}" if causes else None
    return RecordPath(steps, dead_letters, why)
