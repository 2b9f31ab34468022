"""Fixtures: an API with default settings, and workers that listen on sockets and are reset before each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.web.api import Api
from tests.unit.web.workers import FakePeer, Worker, serve_fake_peer, worker
from web.requests import ask_workers
from web.settings import Settings


@pytest.fixture(autouse=True)
def long_response_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let slow workers respond on a busy machine."""
    monkeypatch.setattr(ask_workers, "RESPONSE_TIMEOUT_S", 30.0)


@pytest.fixture
def api() -> Api:
    """Return an API at http://worker:8083/ with an empty herder."""
    return Api(Settings(advertised_url="http://worker:8083/"))


@pytest.fixture(scope="module")
def two_workers() -> Iterator[tuple[Worker, Worker]]:
    with worker() as first, worker() as second:
        yield first, second


@pytest.fixture(scope="module")
def shared_fake_peer() -> Iterator[tuple[str, FakePeer]]:
    with serve_fake_peer() as peer:
        yield peer


@pytest.fixture
def follower(two_workers: tuple[Worker, Worker]) -> Worker:
    """Return the worker that tests use as the follower of the group."""
    two_workers[0].reset()
    return two_workers[0]


@pytest.fixture
def leader(two_workers: tuple[Worker, Worker]) -> Worker:
    """Return the worker that tests use as the leader of the group."""
    two_workers[1].reset()
    return two_workers[1]


@pytest.fixture
def peer(shared_fake_peer: tuple[str, FakePeer]) -> tuple[str, FakePeer]:
    """Return the URL of a fake worker, and the fake worker itself, which records requests."""
    shared_fake_peer[1].reset()
    return shared_fake_peer
