from __future__ import annotations

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from kraal.client import hints
from kraal.client.rest import NoResponse, RequestRejected, Rest, create_ssl_context
from kraal.client.target import parse_target
from tests.fakes.kafka.certificates import make_authority
from tests.fakes.servers.refusing import refusing_address
from tests.fakes.workers.connect import Connect, QuickClock, ScriptedResponse
from tests.unit.client.conftest import Kraal

REBALANCE = (
    "Cannot complete request momentarily due to stale configuration "
    "(typically caused by a concurrent config change)"
)
UNEXPECTED_RESPONSE = "returned an unexpected response; check that the URL is that of a Connect worker"


def test_request_is_retried_during_a_rebalance(kraal: Kraal, worker: Connect) -> None:
    rebalance_response = ScriptedResponse(
        409, {"error_code": 409, "message": REBALANCE}, {"Retry-After": "3"}
    )
    worker.script("PUT", "/connectors/a/pause", rebalance_response, rebalance_response, ScriptedResponse(202))
    assert kraal.out("pause", "a") == "a will pause\n"
    assert (len(worker.received_requests), kraal.clock.time) == (3, 6.0)


def test_endless_rebalance_is_an_error_after_the_time_limit(kraal: Kraal, worker: Connect) -> None:
    worker.refuse("PUT", "/connectors/a/pause", 409, REBALANCE, Retry_After="1")
    assert kraal.error("pause", "a") == f"Error: a: {worker.url} returned 409: {REBALANCE} (retried for 30 s)"
    assert kraal.clock.time == 30.0


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a b", "/connectors/a%20b/status"),
        ("a/b", "/connectors/a%2Fb/status"),
        ("ä%?#", "/connectors/%C3%A4%25%3F%23/status"),
        ("..", "/connectors/%2E%2E/status"),
    ],
)
def test_any_name_is_one_path_segment(kraal: Kraal, worker: Connect, name: str, path: str) -> None:
    worker.create(name, {"connector.class": "kraal.testing.FakeSourceConnector"})
    assert f"\n{name} " in kraal.out("status", name)
    assert worker.requests() == [f"GET {path}"]


def test_credentials_come_from_the_environment_or_the_url_and_are_never_shown(
    kraal: Kraal, worker: Connect
) -> None:
    worker.refuse("GET", "/connectors", 401, "User cannot access the resource.")
    kraal.env = {"KRAAL_USER": "me", "KRAAL_PASSWORD": "hunter2"}
    hint = "(set credentials with KRAAL_USER and KRAAL_PASSWORD, or in the URL)"
    error = f"Error: {worker.url} returned 401: User cannot access the resource. {hint}"
    assert kraal.error("ls", "-q") == error
    assert kraal.error("ls", "-q", "--url", worker.url.replace("http://", "http://you:hunter3@")) == error
    credentials = [
        request.headers["authorization"].removeprefix("Basic ") for request in worker.received_requests
    ]
    assert [base64.b64decode(encoded) for encoded in credentials] == [b"me:hunter2", b"you:hunter3"]


def test_password_without_a_user_is_a_usage_error(kraal: Kraal) -> None:
    kraal.env = {"KRAAL_PASSWORD": "hunter2"}
    result = kraal("ls")
    assert (result.exit_code, "set KRAAL_USER" in result.stderr, "hunter2" in result.stderr) == (
        2,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (ScriptedResponse(200, "<html>"), UNEXPECTED_RESPONSE),
        (ScriptedResponse(200, {"a": 1}), UNEXPECTED_RESPONSE),
        (ScriptedResponse(204), UNEXPECTED_RESPONSE),
        (
            ScriptedResponse(302, None, {"Location": "http://other/"}),
            "returned 302: redirected to http://other/; set --url to it",
        ),
        (
            ScriptedResponse(502, "<html>no</html>", {"Content-Type": "text/html"}),
            "returned 502: Bad Gateway",
        ),
        (ScriptedResponse(500, "two\nlines"), "returned 500: two lines"),
        (ScriptedResponse(500, {"error_code": 500, "message": None}), "returned 500: Internal Server Error"),
        (ScriptedResponse(500, {"error_code": 500, "message": "\x1b[2J"}), "returned 500: \\x1b[2J"),
    ],
)
def test_unexpected_response_is_a_one_line_error(
    kraal: Kraal, worker: Connect, response: ScriptedResponse, error: str
) -> None:
    worker.script("GET", "/connectors", response)
    assert kraal.error("ls", "-q") == f"Error: {worker.url} {error}"


def test_redirect_receives_no_credentials(kraal: Kraal, worker: Connect) -> None:
    worker.script("GET", "/connectors", ScriptedResponse(307, None, {"Location": f"{worker.url}/elsewhere"}))
    kraal.env = {"KRAAL_USER": "me", "KRAAL_PASSWORD": "hunter2"}
    kraal.error("ls", "-q")
    assert worker.requests() == ["GET /connectors"]


def test_refused_connection_is_a_one_line_error(kraal: Kraal) -> None:
    with refusing_address() as address:
        url = f"http://{address}"
        assert kraal.error("ls", "--url", url) == f"Error: Cannot connect to {url}: Connection refused"


def test_unresponsive_worker_times_out(clock: QuickClock) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as silent_server,
        Rest(
            parse_target(f"127.0.0.1:{silent_server.getsockname()[1]}", timeout_s=0.05), clock=clock
        ) as rest,
        pytest.raises(NoResponse, match=r"did not respond within 0.05 s; the request may still take effect"),
    ):
        rest.ask("PUT", "connectors", "a", "pause")


def test_missing_path_is_distinguished_from_missing_connector(worker: Connect, clock: QuickClock) -> None:
    with Rest(parse_target(worker.url), clock=clock) as rest:
        with pytest.raises(RequestRejected) as unknown_path:
            rest.get("nowhere")
        with pytest.raises(RequestRejected) as unknown_connector:
            rest.get("connectors", "nobody")
    assert (unknown_path.value.is_unknown_endpoint, unknown_connector.value.is_unknown_endpoint) == (
        True,
        False,
    )
    assert (unknown_path.value.is_not_found, unknown_connector.value.is_not_found) == (False, True)


@pytest.fixture
def https_server(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield the URL of a server whose certificate was issued by a private CA, and the path of the CA certificate."""
    root = make_authority("somebody")
    worker_certificate = root.issue_certificate("worker", address="127.0.0.1")
    pem, ca = tmp_path / "worker.pem", tmp_path / "ca.pem"
    pem.write_text(worker_certificate.key_pem() + worker_certificate.chain_pem)
    ca.write_text(root.pem)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'["a"]')

        @override
        def log_message(self, *_: object) -> None:
            """Log nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", ca
    server.shutdown()
    thread.join(10)
    server.server_close()


def test_specified_ca_is_trusted(https_server: tuple[str, Path], kraal: Kraal) -> None:
    url, ca = https_server
    assert kraal.out("ls", "-q", "--url", url, "--cacert", str(ca)) == "a\n"
    kraal.env = {"KRAAL_CACERT": str(ca), "KRAAL_URL": url}
    assert kraal.out("ls", "-q") == "a\n"


def test_unknown_ca_is_rejected(https_server: tuple[str, Path], kraal: Kraal, tmp_path: Path) -> None:
    assert "specify your CA certificate with --cacert" in kraal.error("ls", "--url", https_server[0])
    assert "Cannot read --cacert" in kraal.error(
        "ls", "--url", https_server[0], "--cacert", str(tmp_path / "none.pem")
    )


def test_http_loads_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[object] = []
    monkeypatch.setattr(ssl, "create_default_context", lambda **options: loads.append(options))
    context = create_ssl_context(parse_target("http://worker:8083"))
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.cert_store_stats() == {"x509": 0, "crl": 0, "x509_ca": 0}
    assert loads == []
    create_ssl_context(parse_target("https://worker:8443"))
    assert len(loads) == 1


def test_environment_proxies_are_ignored(kraal: Kraal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert kraal.out("ls", "-q") == ""


def test_failed_connection_is_reported_once(kraal: Kraal) -> None:
    with refusing_address() as address:
        kraal.env = {"KRAAL_URL": f"http://{address}"}
        assert (
            kraal.error("pause", "a", "b")
            == f"Error: Cannot connect to {kraal.env['KRAAL_URL']}: Connection refused"
        )


def test_host_name_mismatch_has_no_ca_hint(https_server: tuple[str, Path], kraal: Kraal) -> None:
    url, ca = https_server
    arguments = ("ls", "--url", url.replace("127.0.0.1", "localhost"), "--cacert", str(ca))
    assert "certificate is for another host (Hostname mismatch" in kraal.error(*arguments)
    assert kraal.hint(*arguments) == hints.OTHER_NAME


def test_wrong_scheme_has_a_hint(https_server: tuple[str, Path], kraal: Kraal, worker: Connect) -> None:
    assert kraal.hint("ls", "--url", worker.url.replace("http:", "https:")) == hints.IS_HTTP
    assert kraal.hint("ls", "--url", https_server[0].replace("https:", "http:")) == hints.IS_HTTPS
