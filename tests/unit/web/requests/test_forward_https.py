"""Tests for the forwarding of requests and credentials over HTTPS."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.config.values import Password
from kraal.config.worker.basic_auth import BasicAuth
from kraal.config.worker.rest_tls import LISTENERS, listener_context, peer_context
from kraal.core.errors import ConfigInvalid
from kraal.core.ids import ConnectorName, State, WorkerId
from kraal.peers import PeerFailed, send_task_configs
from tests.fakes.kafka.certificates import make_authority
from tests.unit.web.api import status
from tests.unit.web.event_stream import wait_until
from tests.unit.web.workers import FakePeer, Worker, publish_session_key, serve_fake_peer, set_leader, worker
from web.streams import METRICS

ROOT = make_authority("root")
WORKER_CERTIFICATE = ROOT.issue_certificate("me", address="127.0.0.1")
TLS_SETTINGS = {
    "ssl.client.auth": "required",
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": WORKER_CERTIFICATE.key_pem(),
    "ssl.keystore.certificate.chain": WORKER_CERTIFICATE.chain_pem,
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": ROOT.pem,
}
ANNS_CREDENTIALS = "Basic " + base64.b64encode(b"ann:secret").decode()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture(scope="module")
def secure_peer(scratch: Path) -> Iterator[tuple[str, FakePeer]]:
    with serve_fake_peer(listener_context(TLS_SETTINGS, LISTENERS, scratch)) as peer:
        yield peer


@pytest.fixture(scope="module")
def secure_follower(scratch: Path) -> Iterator[Worker]:
    """Return a worker whose HTTPS listener requires client certificates."""
    with secure_worker(scratch) as follower:
        yield follower


def secure_worker(scratch: Path, **settings: object) -> AbstractContextManager[Worker]:
    peers = cache(lambda: peer_context(TLS_SETTINGS, scratch))
    tls = listener_context(TLS_SETTINGS, LISTENERS, scratch)
    return worker(tls, client_tls=peer_context(TLS_SETTINGS, scratch), peer_tls=peers, **settings)


def test_workers_authenticate_each_other_with_certificates(secure_follower: Worker, scratch: Path) -> None:
    secure_follower.reset()
    with secure_worker(scratch) as leader:
        set_leader(secure_follower, leader.url)
        response = secure_follower.ask("POST", "/connectors", '{"name":"a","config":{}}')
        assert (response.status_code, response.headers["location"]) == (201, f"{leader.url}connectors/a")
        assert ConnectorName("a") in leader.api.published.latest.config.connectors


def test_credentials_are_forwarded_with_the_request(scratch: Path) -> None:
    auth = BasicAuth({"ann": Password("secret")})
    with secure_worker(scratch, basic_auth=auth) as first, secure_worker(scratch, basic_auth=auth) as second:
        set_leader(first, second.url)
        assert first.ask("DELETE", "/connectors/a").status_code == 401
        response = first.ask("DELETE", "/connectors/a", Authorization=ANNS_CREDENTIALS)
        assert (response.status_code, response.json()["message"]) == (404, "Connector a not found")
        assert len(second.api.herder.requests) == 1


def test_metric_changes_are_relayed_over_https_with_passwords(scratch: Path) -> None:
    auth = BasicAuth({"ann": Password("secret")})
    with secure_worker(scratch, basic_auth=auth) as first, secure_worker(scratch, basic_auth=auth) as second:
        worker_id = WorkerId(urlsplit(second.url).netloc)
        statuses = ConnectorStatuses(tasks={0: replace(status(State.RUNNING), worker_id=worker_id)})
        publish_session_key(first.api, second.api)
        first.api.herder.put("a", {}, statuses=statuses)
        with first.client.stream(
            "GET", "/changes", params={"kinds": METRICS}, headers={"Authorization": ANNS_CREDENTIALS}
        ) as stream:
            chunks = stream.iter_text()
            assert "hello" in next(chunks)
            wait_until(lambda: second.api.apps.streams.reader_count == 1)
            second.api.apps.streams.notify(METRICS, "a")
            assert '"connectors":["a"],"kinds":["numbers"]' in next(chunks)


@pytest.mark.parametrize("is_https_request", [True, False])
@pytest.mark.parametrize("is_https_leader", [True, False])
def test_credentials_are_forwarded_only_with_the_same_scheme(
    secure_follower: Worker,
    secure_peer: tuple[str, FakePeer],
    peer: tuple[str, FakePeer],
    scratch: Path,
    *,
    is_https_request: bool,
    is_https_leader: bool,
) -> None:
    url, stub = secure_peer if is_https_leader else peer
    stub.reset()
    secure_follower.reset()
    if is_https_request:
        set_leader(secure_follower, url)
        response = secure_follower.ask("DELETE", "/connectors/a", Authorization=ANNS_CREDENTIALS)
    else:
        with worker(peer_tls=lambda: peer_context(TLS_SETTINGS, scratch)) as http_worker:
            set_leader(http_worker, url)
            response = http_worker.ask("DELETE", "/connectors/a", Authorization=ANNS_CREDENTIALS)
    assert response.status_code == 204
    (request,) = stub.requests
    assert request.headers.get("authorization") == (
        ANNS_CREDENTIALS if is_https_request is is_https_leader else None
    )


def test_untrusted_worker_receives_no_request(follower: Worker, secure_peer: tuple[str, FakePeer]) -> None:
    url, stub = secure_peer
    stub.reset()
    set_leader(follower, url)
    response = follower.ask("DELETE", "/connectors/a", Authorization=ANNS_CREDENTIALS)
    assert (response.status_code, stub.requests) == (500, [])
    assert response.json()["message"].startswith("IO Error trying to forward REST request: ")
    assert "CERTIFICATE_VERIFY_FAILED" in response.json()["message"]


def raise_config_error() -> object:
    raise ConfigInvalid("the key store is gone", [])


def test_unavailable_tls_context_is_reported(secure_peer: tuple[str, FakePeer]) -> None:
    url, stub = secure_peer
    stub.reset()
    with worker(peer_tls=raise_config_error) as first:
        set_leader(first, url)
        response = first.ask("DELETE", "/connectors/a")
    assert (response.status_code, response.json()["message"]) == (
        500,
        "Error trying to forward REST request: the key store is gone",
    )
    assert stub.requests == []


def test_task_configs_are_sent_to_an_https_leader(secure_peer: tuple[str, FakePeer], scratch: Path) -> None:
    url, stub = secure_peer
    stub.reset()
    name, key = ConnectorName("x"), b"0" * 32
    send_task_configs(
        url,
        name,
        [{"a": "b"}],
        key=key,
        algorithm="HmacSHA256",
        tls=lambda: peer_context(TLS_SETTINGS, scratch),
    )
    assert [request.body for request in stub.requests] == [b'[{"a":"b"}]']
    with pytest.raises(PeerFailed, match="IO Error trying to forward REST request"):
        send_task_configs(url, name, [], key=key, algorithm="HmacSHA256")


def test_client_without_a_certificate_is_rejected(secure_follower: Worker) -> None:
    with (
        httpx2.Client(
            base_url=secure_follower.url, trust_env=False, verify=ssl.create_default_context(cadata=ROOT.pem)
        ) as client,
        pytest.raises(httpx2.TransportError),
    ):
        client.get("/connectors")
