"""The script: all families in the order of their replay."""

from __future__ import annotations

from typing import Final

from tests.differential.script import Step
from tests.differential.steps import (
    bodies as steps_bodies,
)
from tests.differential.steps import (
    concurrent as steps_concurrent,
)
from tests.differential.steps import (
    connectors as steps_connectors,
)
from tests.differential.steps import (
    initial as steps_initial,
)
from tests.differential.steps import (
    internal as steps_internal,
)
from tests.differential.steps import (
    life as steps_life,
)
from tests.differential.steps import (
    loggers as steps_loggers,
)
from tests.differential.steps import (
    names as steps_names,
)
from tests.differential.steps import (
    offsets as steps_offsets,
)
from tests.differential.steps import (
    plugins as steps_plugins,
)
from tests.differential.steps import (
    worker as steps_worker,
)

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
