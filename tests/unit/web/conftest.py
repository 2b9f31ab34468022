"""The API with default settings; workers at their sockets, which outlive a test, as new for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.web.api import Api
from tests.unit.web.workers import Stranger, Worker, stranger, worker
from web.settings import Settings


@pytest.fixture
def api() -> Api:
    """Return an API at http://worker:8083/ whose herder has nothing."""
    return Api(Settings(advertised_url="http://worker:8083/"))


@pytest.fixture(scope="module")
def two_workers() -> Iterator[tuple[Worker, Worker]]:
    with worker() as one, worker() as other:
        yield one, other


@pytest.fixture(scope="module")
def one_stranger() -> Iterator[tuple[str, Stranger]]:
    with stranger() as peer:
        yield peer


@pytest.fixture
def follower(two_workers: tuple[Worker, Worker]) -> Worker:
    """Return a worker that tests make a follower."""
    two_workers[0].forget()
    return two_workers[0]


@pytest.fixture
def leader(two_workers: tuple[Worker, Worker]) -> Worker:
    """Return another worker."""
    two_workers[1].forget()
    return two_workers[1]


@pytest.fixture
def peer(one_stranger: tuple[str, Stranger]) -> tuple[str, Stranger]:
    """Return who stands where a worker should: its URL, and what it got."""
    one_stranger[1].forget()
    return one_stranger
