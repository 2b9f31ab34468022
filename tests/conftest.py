"""Fixtures of all tests: one broker per suite, and stack dumps of hanging tests."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from kraal.broker.broker import Broker, free_port
from kraal.core.secrets import secrets
from tests.fakes.kafka.releases import broker_jars

pytest_plugins = [
    "tests.run.seeds",
    "tests.run.durations",
    "tests.run.changes",
    "tests.run.processes",
    "tests.run.releases",
]

MARGIN_S = 5.0
"""Time before a test's timeout at which all stacks are printed."""

settings.register_profile("kraal", deadline=None)  # any deadline may be exceeded on a busy machine
settings.register_profile("day", settings.get_profile("kraal"), max_examples=30)
"""Default number of examples; each run uses different ones, so fewer suffice without `--seeds all`."""

_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Set the number of examples, save a descriptor of standard error, and accept SIGINT in child processes.

    pytest captures the original standard error during tests. A shell starts background processes with SIGINT ignored,
    which child processes of the tests must not inherit.
    """
    settings.load_profile("kraal" if config.getoption("seeds") == "all" else "day")
    descriptor = os.dup(sys.stderr.fileno())
    config.stash[_stderr] = descriptor
    config.add_cleanup(lambda: os.close(descriptor))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable garbage collection during test collection, which mainly creates long-lived objects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def _print_stacks_before_timeout(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print the stacks of all threads just before pytest-timeout kills the process."""
    marker = request.node.get_closest_marker("timeout")
    config = request.config
    general = config.getoption("timeout") or config.getini("timeout")
    limit = float(marker.args[0] if marker and marker.args else general)
    if limit > MARGIN_S:
        faulthandler.dump_traceback_later(limit - MARGIN_S, file=config.stash[_stderr])
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def _forget_secrets() -> Iterator[None]:
    """Clear the registered secrets, which the next test may print."""
    yield
    secrets.clear()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The suite's broker, started on first use and stopped at the end."""
    # Tests may write records with old timestamps, which retention checks would delete.
    day_ms = {"log.retention.check.interval.ms": "86400000"}
    broker = Broker(tmp_path_factory.mktemp("kafka"), free_port(), extra=day_ms, jars=broker_jars())
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def bootstrap(kafka: Broker) -> str:
    """The `bootstrap.servers` of the suite's broker."""
    return kafka.bootstrap
