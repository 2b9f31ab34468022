"""Tests for hints that the client prints with errors."""

from __future__ import annotations

import socket
import ssl

import pytest
from typing_extensions import override

from kraal.cli import kafka
from kraal.client import hints
from kraal.core.errors import HINT, KraalError, NotLeader, format_with_hint
from kraal.dead_letters import kafka as dead_letters
from kraal.dead_letters.api import KafkaUnavailable, OffsetRange
from kraal.testing._simulation.plugins import FAKE_SOURCE
from tests.fakes.kafka.dead_letters import MemoryKafka
from tests.fakes.servers.refusing import refusing_address
from tests.fakes.workers.connect import Connect, ScriptedResponse
from tests.unit.client.conftest import Kraal

REBALANCE = ScriptedResponse(
    409,
    {
        "error_code": 409,
        "message": "Cannot complete request momentarily due to stale configuration (typically caused by a "
        "concurrent config change)",
    },
)  # fmt: skip


def test_hint_is_not_part_of_the_message() -> None:
    error = KraalError("no", hint="Do this.")
    assert str(error) == "no"
    assert format_with_hint(error) == "no\nHint: Do this."
    assert format_with_hint(KraalError("no")) == "no"
    assert NotLeader(None).hint == ""


def certificate_error(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("no")
    error.verify_code = code
    return error


@pytest.mark.parametrize(
    ("cause", "hint"),
    [
        (ConnectionRefusedError(111, "Connection refused"), hints.NO_WORKER),
        (socket.gaierror(-2, "Name or service not known"), hints.HOST),
        (OSError(113, "No route to host"), hints.ROUTE),
        (ssl.SSLError("[SSL: WRONG_VERSION_NUMBER]"), hints.IS_HTTP),
        (certificate_error(10), hints.EXPIRED),
        (certificate_error(62), hints.OTHER_NAME),
        (certificate_error(20), ""),
    ],
)
def test_connection_error_has_a_hint_unless_the_message_suffices(cause: BaseException, hint: str) -> None:
    assert hints.connection_hint(cause, "http://worker:8083") == hint


@pytest.mark.parametrize("url", ["http://worker", "https://worker/connect", "http://[::1]"])
def test_refused_connection_without_a_port_names_the_default_port(url: str) -> None:
    assert "8083" in hints.connection_hint(ConnectionRefusedError(111, "Connection refused"), url)


def test_unreachable_worker_has_a_hint_to_start_or_choose_a_worker(kraal: Kraal) -> None:
    with refusing_address() as address:
        assert kraal.hint("ls", "--url", f"http://{address}") == hints.NO_WORKER


@pytest.mark.parametrize(
    ("arguments", "expected_text"),
    [
        (("describe", "nobody"), "`kraal ls`"),
        (("plugins", "Nothing"), "`kraal plugins --all`"),
        (("loggers", "none.such"), "`kraal loggers`"),
        (("loggers", "kraal", "LOUD"), "INFO, DEBUG"),
        (("restart", "orders", "--task", "7"), "`kraal status NAME`"),
        (("dlq", "show", "orders"), "`kraal dlq ls`"),
    ],
)
def test_unknown_name_has_a_hint_to_list_names(
    kraal: Kraal, worker: Connect, arguments: tuple[str, ...], expected_text: str
) -> None:
    worker.create("orders", {"connector.class": FAKE_SOURCE})
    assert expected_text in kraal.hint(*arguments)


@pytest.mark.parametrize(
    ("response", "expected_text"),
    [
        (ScriptedResponse(404, {"error_code": 404, "message": "HTTP 404 Not Found"}), "Check the path"),
        (ScriptedResponse(403, "<html>no</html>", {"Content-Type": "text/html"}), "KRAAL_USER"),
        (ScriptedResponse(502, "<html>no</html>", {"Content-Type": "text/html"}), "A proxy responded"),
        (ScriptedResponse(500, {"error_code": 500, "message": "boom"}), "log of the worker"),
    ],
)
def test_rejected_request_has_a_hint(
    kraal: Kraal, worker: Connect, response: ScriptedResponse, expected_text: str
) -> None:
    worker.script("GET", "/connectors", response)
    assert expected_text in kraal.hint("ls", "-q")


def test_long_rebalance_has_a_hint(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE})
    worker.script("PUT", "/connectors/a/pause", *[REBALANCE] * 100)
    assert "`kraal assignments`" in kraal.hint("pause", "a")


def test_missing_class_has_a_hint_to_add_the_class(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE})
    assert "`kraal plugins add`" in kraal.hint("patch", "a", "connector.class=org.example.None")


def test_failed_and_timed_out_waits_have_hints(kraal: Kraal, worker: Connect) -> None:
    worker.create("a", {"connector.class": FAKE_SOURCE})
    worker.fail("a", 0, "java.io.IOException: disk full")
    assert "`kraal describe NAME`" in kraal.hint("wait", "a")
    assert kraal.hint("wait", "b", "--timeout", "1") == hints.TOO_LATE


def test_hint_is_printed_once_for_many_connectors(kraal: Kraal) -> None:
    result = kraal("pause", "x", "y", "z")
    assert (result.stderr.count("Error: "), result.stderr.count(HINT)) == (3, 1)


def test_unreachable_kafka_has_a_hint(kraal: Kraal, monkeypatch: pytest.MonkeyPatch) -> None:
    class UnavailableKafka(MemoryKafka):
        @override
        def spans(self, topic: str) -> dict[int, OffsetRange]:
            raise KafkaUnavailable("Kafka at k:9092 failed to list topics")

    unavailable_kafka = UnavailableKafka()
    unavailable_kafka.partitions["a"] = 1
    monkeypatch.setattr(dead_letters, "Kafka", unavailable_kafka)
    hint = kraal.hint("dlq", "show", "a", "--topic", "--bootstrap-servers", "k:9092")
    assert "--command-config" in hint


def test_stopped_broker_has_a_hint_to_start_the_broker(kraal: Kraal, monkeypatch: pytest.MonkeyPatch) -> None:
    class StoppedBroker:
        data_dir, port, pid, is_ready = "kafka", 9092, None, False

        def status(self) -> StoppedBroker:
            return self

    monkeypatch.setattr(kafka, "_create_broker", lambda *_: StoppedBroker())
    assert "`kraal kafka start`" in kraal.hint("kafka", "status")
