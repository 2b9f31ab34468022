from __future__ import annotations

from pathlib import Path

import pytest

from kraal.config.clients.overrides import Allowlist, OverridePolicy
from kraal.config.values import Password
from kraal.config.worker.listeners import Listener
from kraal.config.worker.response_headers import HeaderRule
from kraal.config.worker.standalone import StandaloneConfig, load_standalone, parse_standalone
from kraal.core.errors import BadRequest, ConfigInvalid
from kraal.core.secrets import secrets

STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
MINIMAL_CONFIG = {
    "bootstrap.servers": "a:1, b:2",
    "key.converter": STRING_CONVERTER,
    "value.converter": STRING_CONVERTER,
    "offset.storage.file.filename": "/var/lib/connect.offsets",
}


def parse(**extra: str) -> StandaloneConfig:
    return parse_standalone(
        {**MINIMAL_CONFIG, **{name.replace("__", "."): value for name, value in extra.items()}}
    )


def find_errors(raw: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigInvalid) as raised:
        parse_standalone(raw)
    return raised.value.errors


def test_defaults_match_connect() -> None:
    config = parse()
    assert config.bootstrap_servers == "a:1,b:2"
    assert config.listeners == (Listener("http", "", 8083),)
    assert config.admin_listeners is None
    assert config.data_dir == Path("/var/lib/connect.offsets.kraal")
    assert config.remember_configs
    assert config.ledger_file is None
    assert config.graceful_timeout_s == 5
    assert config.override_policy is OverridePolicy.ALL
    assert config.topic_tracking
    assert (config.metrics_endpoint, config.metrics_window_s, config.metrics_samples) == (True, 30, 2)
    assert config.warnings == ()
    assert config.header_converter.endswith("SimpleHeaderConverter")


@pytest.mark.parametrize(
    ("extra", "url", "worker_id"),
    [
        pytest.param(
            {"listeners": "http://127.0.0.1:1"}, "http://127.0.0.1:1/", "127.0.0.1:1", id="listener"
        ),
        pytest.param(
            {
                "listeners": "http://h:1,http://i:2",
                "rest__advertised__host__name": "x",
                "rest__advertised__port": "3",
            },
            "http://x:3/",
            "x:3",
            id="advertised",
        ),
        pytest.param({"listeners": "HTTP://[::1]:1"}, "http://[::1]:1/", "[::1]:1", id="IPv6"),
    ],
)
def test_advertised_url_and_worker_id_are_derived_from_listeners(
    extra: dict[str, str], url: str, worker_id: str
) -> None:
    config = parse(**extra)
    assert (config.advertised_url, config.worker_id) == (url, worker_id)


def test_bound_port_is_advertised() -> None:
    config = parse(listeners="http://127.0.0.1:0").with_ports(4711)
    assert config.advertised_url == "http://127.0.0.1:4711/"
    assert config.worker_id == "127.0.0.1:4711"


def test_wildcard_address_is_advertised_as_single_address() -> None:
    config = parse(listeners="http://:8083")
    assert config.advertised_url.startswith("http://")
    assert not config.advertised_url.startswith("http://:")


@pytest.mark.parametrize(
    ("extra", "is_served", "is_read_only", "message"),
    [
        ({}, True, False, "The dashboard is at http://h:8083/ui/"),
        ({"ui__enabled": "false"}, False, False, "The dashboard is disabled (ui.enabled)."),
        ({"ui__read__only": "true"}, True, True, "The dashboard is at http://h:8083/ui/"),
        (
            {"admin__listeners": "http://h:9999"},
            True,
            False,
            "The dashboard is at /ui/ of the listeners in admin.listeners.",
        ),
        (
            {"admin__listeners": ""},
            True,
            False,
            "The dashboard is not served, because admin.listeners is empty.",
        ),
    ],
)
def test_dashboard_can_be_disabled_or_read_only(
    extra: dict[str, str], *, is_served: bool, is_read_only: bool, message: str
) -> None:
    config = parse(listeners="http://h:8083", **extra)
    assert (config.ui, config.ui_read_only, config.dashboard) == (is_served, is_read_only, message)
    assert config.warnings == ()


def test_metrics_endpoint_and_windows_are_configurable() -> None:
    config = parse(
        metrics__endpoint__enabled="false", metrics__sample__window__ms="500", metrics__num__samples="4"
    )
    assert (config.metrics_endpoint, config.metrics_window_s, config.metrics_samples) == (False, 0.5, 4)
    assert config.warnings == ()


def test_metrics_recording_level_causes_warning() -> None:
    config = parse(metrics__recording__level="DEBUG")
    assert config.warnings == ("metrics.recording.level is ignored: all metrics have the level INFO.",)


def test_prefixed_settings_are_passed_through() -> None:
    raw = {
        **MINIMAL_CONFIG,
        "spark.master": "local[2]",
        "producer.acks": "1",
        "consumer.max.poll.records": "5",
        "admin.retries": "2",
        "admin.listeners": "",
        "security.protocol": "SSL",
        "key.converter.schemas.enable": "false",
    }
    config = parse_standalone(raw)
    assert config.spark == {"spark.master": "local[2]"}
    assert config.raw == raw
    assert config.admin_listeners == ()
    assert config.client == {"security.protocol": "SSL"}
    assert config.warnings == ()


def test_all_errors_are_reported_together() -> None:
    errors = find_errors(
        {
            "bootstrap.servers": "",
            "value.converter": STRING_CONVERTER,
            "offset.flush.interval.ms": "soon",
            "listeners": "https://:1,nonsense,ftp://h:2,http://h:70000",
            "response.http.headers.config": "say X: y",
            "access.control.allow.origin": "http://a.com,*.b.com",
            "rest.extension.classes": "io.acme.Guard",
            "connector.client.config.override.policy": "Some",
            "topic.tracking.enable": "maybe",
            "rest.advertised.listener": "ftp",
        }
    )
    text = "\n".join(errors)
    for expected in (
        "Configuration 'bootstrap.servers' must not be empty.",
        'Missing required configuration "key.converter" which has no default value.',
        'Missing required configuration "offset.storage.file.filename" which has no default value.',
        "Invalid value soon for configuration offset.flush.interval.ms: Not a number of type LONG",
        "Invalid value null for configuration ssl.keystore.location: HTTPS listeners need a key store",
        "Invalid header config action: 'say'. Expected one of [set, add, setDate, addDate]",
        (
            "Invalid value http://a.com,*.b.com for configuration access.control.allow.origin: each origin must be * "
            "or a regular expression: nothing to repeat"
        ),
        "Invalid value io.acme.Guard for configuration rest.extension.classes: Class io.acme.Guard could not be found",
        "Invalid value nonsense for configuration listeners: a listener has the form http://HOST:PORT or https",
        "Invalid value ftp://h:2 for configuration listeners: the scheme must be http or https",
        "Invalid value http://h:70000 for configuration listeners: the port must be at most 65535; a listener has",
        "override.policy: String must be one of: All, None, Principal",
        "for configuration topic.tracking.enable: Expected value to be either true or false",
        (
            "Invalid value ftp for configuration rest.advertised.listener: String must be one of (case insensitive): "
            "http, https"
        ),
    ):
        assert expected in text


def test_missing_key_error_suggests_misspelled_key() -> None:
    text = "\n".join(
        find_errors({"bootstrap.server": "a:1", "key.convertor": "x", "value.converter.type": "y"})
    )
    assert (
        'Missing required configuration "bootstrap.servers" which has no default value. The unknown key '
        "bootstrap.server is ignored; did you mean bootstrap.servers?"
    ) in text
    assert "The unknown key key.convertor is ignored; did you mean key.converter?" in text
    assert 'Missing required configuration "value.converter" which has no default value.\n' in text


def test_unknown_keys_cause_warning_with_suggestion() -> None:
    config = parse(offset__storage__file__filenme="x", group__id="g", completely__unheard__thing="1")
    assert "\n".join(config.warnings) == (
        "offset.storage.file.filenme is ignored: unknown configuration; "
        "did you mean offset.storage.file.filename?\n"
        "group.id is ignored: only distributed workers use it.\n"
        "completely.unheard.thing is ignored: unknown configuration."
    )


def test_rest_settings_are_parsed(tmp_path: Path) -> None:
    (tmp_path / "jaas.conf").write_text(
        f'KafkaConnect {{ PropertyFileLoginModule required file="{tmp_path}/users"; }};'
    )
    (tmp_path / "users").write_text("ann=secret")
    jaas = str(tmp_path / "jaas.conf")
    config = parse(
        admin__listeners="http://a:1,http://b:0",
        response__http__headers__config="set X-A: b",
        access__control__allow__origin="http://a.com",
        access__control__allow__methods="PUT",
        rest__extension__classes="BasicAuthSecurityRestExtension",
        java__security__auth__login__config=jaas,
    )
    assert config.admin_listeners == (Listener("http", "a", 1), Listener("http", "b", 0))
    assert config.response_headers == (HeaderRule("X-A", "b", add=False),)
    assert (config.cors_origin, config.cors_methods) == ("http://a.com", "PUT")
    assert config.basic_auth is not None
    assert config.basic_auth.users == {"ann": Password("secret")}
    assert config.warnings == ()
    assert parse(java__security__auth__login__config=jaas).warnings == (
        (
            "java.security.auth.login.config is ignored: rest.extension.classes names no extension, so REST requires "
            "no authentication."
        ),
    )


def test_unknown_converter_is_an_error() -> None:
    with pytest.raises(ConfigInvalid, match=f"key.converter: Class {STRING_CONVERTER} could not be found"):
        parse_standalone(MINIMAL_CONFIG, resolve=lambda _name: None)


def test_java_class_names_of_policies_are_parsed() -> None:
    package = "org.apache.kafka.connect.connector.policy"
    name = f"{package}.PrincipalConnectorClientConfigOverridePolicy"
    assert parse(connector__client__config__override__policy=name).override_policy is OverridePolicy.PRINCIPAL


def test_allowlist_policy_allows_listed_keys() -> None:
    policy = parse(
        connector__client__config__override__policy="Allowlist",
        connector__client__config__override__allowlist="linger.ms, batch.size",
    ).override_policy
    assert isinstance(policy, Allowlist)
    assert policy.rejection_reason("linger.ms") is None
    assert policy.rejection_reason("acks") == (
        "The 'Allowlist' policy does not allow 'acks' to be overridden in the connector configuration."
    )


def test_allowlist_is_empty_by_default() -> None:
    policy = parse(connector__client__config__override__policy="Allowlist").override_policy
    assert policy == Allowlist(frozenset())


def test_plugin_policy_requires_plugin_path(tmp_path: Path) -> None:
    name = "com.example.AllConnectorClientConfigOverridePolicy"
    with pytest.raises(
        ConfigInvalid, match=f"Invalid value {name} .*; or the class of a policy in plugin.path"
    ):
        parse(connector__client__config__override__policy=name)
    config = parse(connector__client__config__override__policy=name, plugin__path=str(tmp_path))
    assert config.override_policy is OverridePolicy.NONE, "no override is allowed before the class is loaded"


def test_load_standalone_reads_properties_file(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text(
        "# café\n" + "".join(f"{name} = {value}\n" for name, value in MINIMAL_CONFIG.items()), "utf-8"
    )
    assert load_standalone(path).bootstrap_servers == "a:1,b:2"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(None, "there is no such file", id="missing"),
        pytest.param("", "it is not a file", id="a directory"),
        pytest.param("a=\\uZZZZ\n", "is not a properties file", id="malformed"),
    ],
)
def test_unreadable_file_error_contains_path(tmp_path: Path, content: str | None, reason: str) -> None:
    path = tmp_path / "worker.properties"
    if content == "":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    with pytest.raises(BadRequest, match=reason) as raised:
        load_standalone(path)
    assert str(path) in str(raised.value)


def test_secret_on_jvm_command_line_causes_warning() -> None:
    secrets.add("hunter2hunter2")
    try:
        config = parse(
            **{
                "spark.driver.extraClassPath": "/opt/hunter2hunter2/lib",
                "spark.driver.extraJavaOptions": "-Dpassword=hunter2hunter2",
                "spark.driver.memory": "2g",
                "spark.hadoop.fs.s3a.secret.key": "hunter2hunter2",
            }
        )
    finally:
        secrets.clear()
    [warning] = config.warnings
    assert warning.startswith(
        "spark.driver.extraClassPath contains a secret or the value of a variable, and "
    )
    assert "hunter2" not in warning
