"""What every test may use: one real broker a suite, and all stacks when a test hangs."""

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
"""How long before its time-out a test's stacks are printed."""

settings.register_profile("kraal", deadline=None)  # a busy machine exceeds any
settings.register_profile("day", settings.get_profile("kraal"), max_examples=30)
"""Examples of tests that set no number: others with each run, so fewer are enough without `--seeds all`."""

_stderr = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Choose the number of examples, keep a descriptor of standard error, and accept SIGINT in what tests start.

    pytest captures the original standard error during tests. A shell starts what it runs in the background with SIGINT
    ignored, and programs inherit that; those that tests start must not.
    """
    settings.load_profile("kraal" if config.getoption("seeds") == "all" else "day")
    descriptor = os.dup(sys.stderr.fileno())
    config.stash[_stderr] = descriptor
    config.add_cleanup(lambda: os.close(descriptor))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: there is little, among ever more objects that stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(autouse=True)
def _stacks_before_timeout(request: pytest.FixtureRequest) -> Iterator[None]:
    """Print the stacks of all threads just before pytest-timeout ends the process."""
    marker = request.node.get_closest_marker("timeout")
    config = request.config
    general = config.getoption("timeout") or config.getini("timeout")
    limit = float(marker.args[0] if marker and marker.args else general)
    if limit > MARGIN_S:
        faulthandler.dump_traceback_later(limit - MARGIN_S, file=config.stash[_stderr])
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests() -> Iterator[None]:
    """Forget what a test made a secret: the next one may print it."""
    yield
    secrets.forget()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The suite's broker: started for the first test that asks, stopped at the end."""
    # Records of tests may have old timestamps; a broker that looks for what is over a week old removes them.
    day_ms = {"log.retention.check.interval.ms": "86400000"}
    broker = Broker(tmp_path_factory.mktemp("kafka"), free_port(), extra=day_ms, jars=broker_jars())
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def bootstrap(kafka: Broker) -> str:
    """The suite's broker as clients name it in `bootstrap.servers`."""
    return kafka.bootstrap
