"""Both modes replayed once, for all tests that look at what came of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kraal.embedded.broker import Broker
from tests.differential.all_steps import SCRIPT
from tests.differential.replay import Patience
from tests.differential.stage import Replayed, replay_all


@pytest.fixture(scope="session")
def replayed(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, Replayed]]:
    """What both workers of each mode said, by mode and the step's name."""
    found = replay_all(SCRIPT, tmp_path_factory.mktemp("differential"), kafka.bootstrap, Patience())
    return {mode: {each.step.name: each for each in steps} for mode, steps in found.items()}
