from __future__ import annotations

from pathlib import Path

import pytest

from kraal.config.clients.security import OAuthLogin, SecurityProtocol, UserLogin, read_security
from kraal.config.values import Password
from kraal.core.errors import ConfigInvalid
from tests.fakes.kafka.certificates import make_authority

PACKAGE = "org.apache.kafka.common.security"
SCRAM = f'{PACKAGE}.scram.ScramLoginModule required username="u" password="hush";'
PLAIN = f'{PACKAGE}.plain.PlainLoginModule required username="u" password="hush";'
OAUTH = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule"
HANDLER = f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler"
URL = "https://id.example/token"
OAUTH_SETTINGS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": HANDLER,
    "sasl.oauthbearer.token.endpoint.url": URL,
}


def find_errors(settings: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigInvalid) as raised:
        read_security(settings)
    assert "hush" not in str(raised.value)
    return raised.value.errors


def test_default_protocol_is_plaintext() -> None:
    security = read_security({})
    assert (security.protocol, security.tls, security.login) == (SecurityProtocol.PLAINTEXT, None, None)


def test_settings_unused_by_protocol_are_ignored() -> None:
    security = read_security({"ssl.truststore.location": "/nowhere", "sasl.jaas.config": "nonsense"})
    assert (security.tls, security.login) == (None, None)


@pytest.mark.parametrize(
    ("protocol", "is_encrypted", "uses_sasl"),
    [
        ("PLAINTEXT", False, False),
        ("ssl", True, False),
        ("SASL_PLAINTEXT", False, True),
        ("Sasl_Ssl", True, True),
    ],
)
def test_protocols_determine_tls_and_login(protocol: str, *, is_encrypted: bool, uses_sasl: bool) -> None:
    security = read_security(
        {"security.protocol": protocol, "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN}
    )
    assert (security.tls is not None, security.login is not None) == (is_encrypted, uses_sasl)


@pytest.mark.parametrize(
    ("mechanism", "line"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)]
)
def test_user_login_is_read(mechanism: str, line: str) -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": line}
    security = read_security(settings)
    assert security.login == UserLogin(mechanism, "u", Password("hush"))
    assert "hush" not in repr(security)


@pytest.mark.parametrize(
    ("value", "checks_host"), [(None, True), ("https", True), ("HTTPS", True), ("", False)]
)
def test_empty_identification_algorithm_disables_host_check(value: str | None, *, checks_host: bool) -> None:
    settings = {"security.protocol": "SSL"}
    if value is not None:
        settings["ssl.endpoint.identification.algorithm"] = value
    tls = read_security(settings).tls
    assert tls is not None
    assert tls.check_host is checks_host


def test_tls_versions_are_configurable() -> None:
    tls = read_security({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1, TLSv1.3"}).tls
    assert tls is not None
    assert tls.versions == ("TLSv1.3",)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        pytest.param(
            {"security.protocol": "TLS"},
            "Invalid value TLS for configuration security.protocol: String must be one of (case insensitive): "
            "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
            id="protocol",
        ),
        pytest.param(
            {"security.protocol": "SASL_SSL"},
            "Invalid value null for configuration sasl.mechanism: String must be one of: PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512, OAUTHBEARER; GSSAPI (Kerberos), the default, is not supported",
            id="no mechanism",
        ),
        pytest.param(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"},
            "Invalid value AWS_MSK_IAM for configuration sasl.mechanism: String must be one of: PLAIN, "
            "SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
            id="mechanism",
        ),
        pytest.param(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
            "Invalid value null for configuration sasl.jaas.config: PLAIN requires PlainLoginModule with "
            "username and password",
            id="no login module",
        ),
        pytest.param(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM},
            "Invalid value [hidden] for configuration sasl.jaas.config: sasl.mechanism=PLAIN requires the login "
            "module PlainLoginModule",
            id="wrong login module",
        ),
        pytest.param(
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "a.B hush"},
            "Invalid value [hidden] for configuration sasl.jaas.config: required, requisite, sufficient or optional "
            "must follow the login module's class",
            id="broken login module",
        ),
        pytest.param(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PACKAGE}.plain.PlainLoginModule required password="hush";',
            },
            "Invalid value [hidden] for configuration sasl.jaas.config: PlainLoginModule requires the options username "
            "and password",
            id="no user",
        ),
        pytest.param(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": SCRAM.replace(";", ' tokenauth="true";'),
            },
            "Invalid value [hidden] for configuration sasl.jaas.config: delegation tokens (tokenauth) are not "
            "supported",
            id="delegation token",
        ),
        pytest.param(
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": PLAIN,
                "sasl.client.callback.handler.class": "a.B",
            },
            "Invalid value a.B for configuration sasl.client.callback.handler.class: only Java clients can "
            "use a Java class",
            id="Java's handlers",
        ),
        pytest.param(
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"},
            "Invalid value none for configuration ssl.endpoint.identification.algorithm: it must be https, or empty "
            "to disable host name verification",
            id="identification",
        ),
        pytest.param(
            {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"},
            "Invalid value TLSv1.1 for configuration ssl.enabled.protocols: it must contain at least one of: TLSv1.2, "
            "TLSv1.3",
            id="old TLS",
        ),
        pytest.param(
            {"security.protocol": "SSL", "ssl.engine.factory.class": "a.B"},
            "Invalid value a.B for configuration ssl.engine.factory.class: only Java clients can use a Java class; "
            "use ssl.keystore.* and ssl.truststore.*",
            id="engine",
        ),
        pytest.param(
            {"security.protocol": "SSL", "ssl.keystore.password": "hush"},
            "Invalid value [hidden] for configuration ssl.keystore.password: ssl.keystore.location is not set",
            id="store",
        ),
    ],
)
def test_invalid_values_are_reported_with_key_and_value(settings: dict[str, str], error: str) -> None:
    assert find_errors(settings) == (error,)


def test_all_errors_are_reported_with_original_keys() -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "BCFKS",
        "ssl.keystore.location": "/nowhere",
        "sasl.mechanism": "GSSAPI",
    }
    with pytest.raises(ConfigInvalid) as raised:
        read_security(settings, lambda key: f"consumer.{key}")
    assert [error.partition(":")[0] for error in raised.value.errors] == [
        "Invalid value BCFKS for configuration consumer.ssl.truststore.type",
        "Invalid value /nowhere for configuration consumer.ssl.keystore.location",
        "Invalid value GSSAPI for configuration consumer.sasl.mechanism",
    ]


def test_client_credentials_are_read_from_login_module_options() -> None:
    line = f'{OAUTH} required clientId="me" clientSecret="hush" scope="kafka" extension_logicalCluster="lkc";'
    security = read_security(
        {**OAUTH_SETTINGS, "sasl.jaas.config": line, "sasl.login.read.timeout.ms": "250"}
    )
    assert security.login == OAuthLogin(
        url=URL,
        client_id="me",
        client_secret=Password("hush"),
        scope="kafka",
        extensions={"logicalCluster": "lkc"},
        trusted=None,
        connect_timeout_s=10,
        read_timeout_s=0.25,
    )
    assert "hush" not in repr(security)


def test_newer_keys_override_login_module_options() -> None:
    login = read_security(
        {
            **OAUTH_SETTINGS,
            "sasl.jaas.config": f'{OAUTH} required clientId="old" clientSecret="old";',
            "sasl.oauthbearer.client.credentials.client.id": "a/b",
            "sasl.oauthbearer.client.credentials.client.secret": "hush hush",
            "sasl.oauthbearer.scope": "s",
            "sasl.oauthbearer.header.urlencode": "true",
        }
    ).login
    assert isinstance(login, OAuthLogin)
    assert (login.client_id, login.client_secret.value, login.scope) == ("a%2Fb", "hush%20hush", "s")


def test_token_endpoint_has_own_trust_store(tmp_path: Path) -> None:
    root = make_authority()
    file = root.trust_store(tmp_path / "id.p12", "hush")
    options = (
        f'clientId="me" clientSecret="s" ssl.truststore.location="{file}" ssl.truststore.password="hush"'
    )
    login = read_security({**OAUTH_SETTINGS, "sasl.jaas.config": f"{OAUTH} required {options};"}).login
    assert isinstance(login, OAuthLogin)
    assert login.trusted == root.pem
    wrong_options = options.replace("hush", "other")
    (error,) = find_errors({**OAUTH_SETTINGS, "sasl.jaas.config": f"{OAUTH} required {wrong_options};"})
    assert "[hidden] for configuration sasl.jaas.config: option ssl.truststore.location is invalid" in error


def test_unsupported_token_settings_are_rejected() -> None:
    errors = find_errors(
        {
            **OAUTH_SETTINGS,
            "sasl.login.callback.handler.class": "io.strimzi.JaasClientOauthLoginCallbackHandler",
            "sasl.oauthbearer.jwt.retriever.class": f"{PACKAGE}.oauthbearer.JwtBearerJwtRetriever",
            "sasl.oauthbearer.token.endpoint.url": "file:///token",
        }
    )
    assert [error.partition(" configuration ")[2].partition(":")[0] for error in errors] == [
        "sasl.login.callback.handler.class",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.credentials.client.id",
    ]
