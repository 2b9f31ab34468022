"""The script: all families, in the order in which they are replayed."""

from __future__ import annotations

from typing import Final

from tests.differential import (
    steps_bodies,
    steps_concurrent,
    steps_connectors,
    steps_initial,
    steps_internal,
    steps_life,
    steps_loggers,
    steps_names,
    steps_offsets,
    steps_plugins,
    steps_worker,
)
from tests.differential.script import Step

SCRIPT: Final[list[Step]] = [
    *steps_worker.STEPS,
    *steps_connectors.STEPS,
    *steps_bodies.STEPS,
    *steps_plugins.STEPS,
    *steps_loggers.STEPS,
    *steps_internal.STEPS,
    *steps_names.STEPS,
    *steps_initial.STEPS,
    *steps_concurrent.STEPS,
    *steps_life.STEPS,
    *steps_offsets.STEPS,
]
