"""Tests for several listeners over real sockets: HTTPS, client certificates, and admin listeners."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from kraal.config.worker.rest_tls import LISTENERS, listener_context
from tests.fakes.kafka.certificates import Certified, make_authority
from tests.unit.web.api import Api
from web.server import HttpServer, Listener, Site
from web.settings import Settings

ROOT = make_authority("root")
SERVER_CERTIFICATE = ROOT.issue_certificate("server", address="127.0.0.1")
CLIENT_CERTIFICATE = ROOT.issue_certificate("client")
STRANGER_CERTIFICATE = make_authority("elsewhere").issue_certificate("stranger")


def tls_settings(certified: Certified = SERVER_CERTIFICATE) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": certified.key_pem(),
        "ssl.keystore.certificate.chain": certified.chain_pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": ROOT.pem,
    }


def client_context(
    folder: Path, certificate: Certified | None = None, authority: Certified = ROOT
) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=authority.pem)
    if certificate is not None:
        file = folder / "client.pem"
        file.write_text(certificate.key_pem() + certificate.chain_pem)
        context.load_cert_chain(file)
    return context


def get(port: int, path: str = "/connectors", tls: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    client = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        if tls is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls)
    )
    try:
        client.request("GET", path)
        response = client.getresponse()
        return response.status, response.read()
    finally:
        client.close()


@contextmanager
def serve_listeners(
    folder: Path, api: Api, listeners: list[Listener], settings: dict[str, str] | None = None
) -> Iterator[list[int]]:
    """Serve the API; yield the ports of the listeners."""
    tls = listener_context(settings or tls_settings(), LISTENERS, folder / "scratch")
    server = HttpServer(listeners, graceful_s=1)
    server.start(api.app, tls=tls, admin=Site(PlainTextResponse("admin"), tls))
    try:
        yield [listener.port for listener in server.bound_listeners]
    finally:
        server.stop()


HTTP_LISTENER = Listener("127.0.0.1", 0)
HTTPS_LISTENER = Listener("127.0.0.1", 0, https=True)


def test_http_and_https_serve_the_same_endpoints(api: Api, tmp_path: Path) -> None:
    with serve_listeners(tmp_path, api, [HTTP_LISTENER, HTTPS_LISTENER, HTTPS_LISTENER]) as (
        http_port,
        *https_ports,
    ):
        assert get(http_port) == (200, b"[]")
        for port in https_ports:
            assert get(port, tls=client_context(tmp_path)) == (200, b"[]")


def test_admin_listeners_serve_the_admin_endpoints(api: Api, tmp_path: Path) -> None:
    admin_listener = Listener("127.0.0.1", 0, admin=True)
    secure_admin_listener = Listener("127.0.0.1", 0, https=True, admin=True)
    with serve_listeners(tmp_path, api, [HTTP_LISTENER, admin_listener, secure_admin_listener]) as (
        main_port,
        admin_port,
        secure_admin_port,
    ):
        assert get(main_port) == (200, b"[]")
        assert get(admin_port) == (200, b"admin")
        assert get(secure_admin_port, tls=client_context(tmp_path)) == (200, b"admin")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_only_enabled_protocol_versions_are_accepted(
    api: Api, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    client_tls = client_context(tmp_path)
    client_tls.maximum_version = client_tls.minimum_version = version
    settings = {**tls_settings(), "ssl.enabled.protocols": "TLSv1.3"}
    with serve_listeners(tmp_path, api, [HTTPS_LISTENER], settings) as (port,):
        if version is ssl.TLSVersion.TLSv1_3:
            assert get(port, tls=client_tls) == (200, b"[]")
        else:
            with pytest.raises(ssl.SSLError):
                get(port, tls=client_tls)


def test_failed_tls_handshakes_do_not_affect_other_clients(api: Api, tmp_path: Path) -> None:
    with serve_listeners(tmp_path, api, [HTTPS_LISTENER]) as (port,):
        with pytest.raises(ssl.SSLCertVerificationError):
            get(port, tls=client_context(tmp_path, authority=make_authority("other")))
        with pytest.raises((http.client.HTTPException, OSError)):
            get(port)
        assert get(port, tls=client_context(tmp_path)) == (200, b"[]")


@pytest.mark.parametrize(
    ("client_auth", "certificate", "is_accepted"),
    [
        ("none", None, True),
        ("none", STRANGER_CERTIFICATE, True),
        ("requested", None, True),
        ("requested", CLIENT_CERTIFICATE, True),
        ("requested", STRANGER_CERTIFICATE, False),
        ("required", None, False),
        ("required", CLIENT_CERTIFICATE, True),
        ("required", STRANGER_CERTIFICATE, False),
    ],
)
def test_clients_are_authenticated_by_certificate(
    api: Api, tmp_path: Path, client_auth: str, certificate: Certified | None, *, is_accepted: bool
) -> None:
    client_tls = client_context(tmp_path, certificate)
    with serve_listeners(
        tmp_path, api, [HTTPS_LISTENER], {**tls_settings(), "ssl.client.auth": client_auth}
    ) as (port,):
        if is_accepted:
            assert get(port, tls=client_tls) == (200, b"[]")
        else:
            with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                get(port, tls=client_tls)


@pytest.mark.parametrize("is_admin_separate", [False, True])
def test_main_listeners_serve_admin_endpoints_unless_separate(*, is_admin_separate: bool) -> None:
    api = Api(Settings(advertised_url="http://worker:8083/", has_separate_admin=is_admin_separate))
    main_paths = {route.path for route in api.app.routes if isinstance(route, Route)}
    admin_paths = {route.path for route in api.apps.admin.routes if isinstance(route, Route)}
    assert all(path.startswith("/admin") for path in admin_paths)
    assert (main_paths & admin_paths) == (set() if is_admin_separate else admin_paths)
    assert not any(path.startswith("/admin") for path in main_paths - admin_paths)


def test_admin_listeners_return_404_for_other_paths(api: Api) -> None:
    for path in ("/", "/connectors", "/health", "/openapi.json"):
        response = TestClient(api.apps.admin).get(path)
        assert (response.status_code, response.json()["message"]) == (404, "HTTP 404 Not Found")
        assert response.headers["server"].startswith("kraal/")


def test_admin_listeners_do_not_serve_the_main_endpoints(api: Api) -> None:
    for _ in range(2):
        assert api.client.get("/connectors").status_code == 200
    assert TestClient(api.apps.admin).get("/connectors").status_code == 404
