"""Tests that connectors may use only the token URLs that the worker's operator allows."""

from __future__ import annotations

import pytest

from kraal.config.clients.keys import Client
from kraal.config.clients.layers import merge_layers
from kraal.config.clients.restrictions import ALLOWED_URLS, java_properties
from kraal.config.worker.standalone import parse_standalone
from kraal.core.errors import ConfigInvalid
from kraal.plugins.worker_plugins import WorkerPlugins
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import DEFAULTS, fake_registry

TOKEN, JWKS = "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwks.endpoint.url"
URL, OTHER_URL = "https://id.example/token", "http://169.254.169.254/latest"
MODULES = "org.apache.kafka.disallowed.login.modules"


@pytest.fixture(autouse=True)
def without_kafka_opts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)


@pytest.mark.parametrize("client", ["producer", "consumer", "admin"])
@pytest.mark.parametrize("key", [TOKEN, JWKS])
def test_unlisted_url_of_connector_is_rejected(client: Client, key: str) -> None:
    for worker_settings in ({}, {ALLOWED_URLS: ""}, {ALLOWED_URLS: URL}):
        with pytest.raises(ConfigInvalid) as raised:
            merge_layers(worker_settings, {f"{client}.override.{key}": OTHER_URL}, client)
        assert str(raised.value) == (
            f"Invalid value {OTHER_URL} for configuration {client}.override.{key}: The URL cannot be accessed due to "
            f"restrictions. Update the system property '{ALLOWED_URLS}' to allow the URL to be accessed."
        )


def test_url_with_allowed_prefix_is_rejected() -> None:
    with pytest.raises(ConfigInvalid):
        merge_layers({ALLOWED_URLS: URL}, {f"producer.override.{TOKEN}": f"{URL}/more"}, "producer")


@pytest.mark.parametrize(
    "worker",
    [
        pytest.param({ALLOWED_URLS: f"{OTHER_URL}, {URL}"}, id="listed"),
        pytest.param({TOKEN: URL}, id="URL of the worker"),
        pytest.param({f"consumer.{TOKEN}": URL}, id="URL of another client"),
    ],
)
def test_url_allowed_by_operator_is_accepted(worker: dict[str, str]) -> None:
    assert merge_layers(worker, {f"producer.override.{TOKEN}": URL}, "producer")[TOKEN] == URL


@pytest.mark.parametrize(
    "options",
    [
        f"-D{ALLOWED_URLS}={URL}",
        f"-Xmx1g -D{ALLOWED_URLS}={OTHER_URL},{URL} -Dx=y",
        f'"-D{ALLOWED_URLS}={OTHER_URL}, {URL}"',
        f"-D{ALLOWED_URLS}='{URL}'",
        f"-D{ALLOWED_URLS}={OTHER_URL} -D{ALLOWED_URLS}={URL}",
    ],
)
def test_allowed_urls_are_read_from_kafka_opts(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_OPTS", options)
    connector = {f"producer.override.{TOKEN}": URL}
    assert merge_layers({}, connector, "producer")[TOKEN] == URL
    with pytest.raises(ConfigInvalid):
        merge_layers({ALLOWED_URLS: ""}, connector, "producer")  # the worker's config takes precedence


def test_url_in_worker_config_is_accepted() -> None:
    assert merge_layers({f"producer.{TOKEN}": URL}, {}, "producer")[TOKEN] == URL


def test_restrictions_are_passed_to_spark_jvm() -> None:
    assert java_properties({}, {}) == {ALLOWED_URLS: ""}
    worker = {ALLOWED_URLS: OTHER_URL, f"producer.{TOKEN}": URL}
    assert java_properties(worker, {}) == {ALLOWED_URLS: f"{OTHER_URL},{URL}"}
    opts = {"KAFKA_OPTS": f"-D{MODULES}=a.B,c.D"}
    assert java_properties({}, opts) == {ALLOWED_URLS: "", MODULES: "a.B,c.D"}


@pytest.mark.parametrize("prefix", ["source.cluster.", "source.consumer.", "target.admin.", "my.client."])
def test_urls_of_connectors_own_clients_are_restricted(prefix: str) -> None:
    config = {"name": "c", "connector.class": FAKE_SOURCE, prefix + TOKEN: OTHER_URL, prefix + JWKS: URL}
    plugins = WorkerPlugins(fake_registry(), parse_standalone(DEFAULTS | {ALLOWED_URLS: URL}))
    for check_config in (
        lambda: plugins.make(config),
        lambda: merge_layers({ALLOWED_URLS: URL}, config, "producer"),
    ):
        with pytest.raises(ConfigInvalid) as raised:
            check_config()
        assert [str(error) for error in raised.value.errors] == [str(raised.value)]
        assert f"Invalid value {OTHER_URL} for configuration {prefix}{TOKEN}: The URL cannot" in str(
            raised.value
        )
    plugins.make(config | {prefix + TOKEN: URL})
