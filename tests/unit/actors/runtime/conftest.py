"""Fixtures of the tests for actor systems."""

from __future__ import annotations

from collections.abc import Iterator

import pykka
import pytest

from actors.runtime.system import ThreadSystem


@pytest.fixture
def system() -> Iterator[ThreadSystem]:
    """Create an actor system; close it after the test, and check that no actor is left."""
    thread_system = ThreadSystem()
    yield thread_system
    assert thread_system.close(5) == []
    # Actors that the test has released may still be stopping.
    assert all(ref.actor_stopped.wait(5) for ref in pykka.ActorRegistry.get_all()), "no test leaks an actor"
