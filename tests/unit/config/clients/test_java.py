from __future__ import annotations

from pathlib import Path

import pytest

from kraal.config.clients.jaas import parse_jaas
from kraal.config.clients.java import java_options
from kraal.core.errors import ConfigInvalid
from tests.fakes.kafka.certificates import make_authority

OAUTH = "org.apache.kafka.common.security.oauthbearer"
SETTINGS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
}


def test_java_settings_are_unchanged() -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.jaas.config": "anything",
        "ssl.truststore.location": "/a.jks",
        "linger.ms": "5",
    }
    assert java_options(settings) == settings


def test_empty_store_setting_is_dropped() -> None:
    remaining_settings = {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.truststore.type": "PEM",
    }
    assert (
        java_options({**remaining_settings, "ssl.truststore.location": "", "ssl.key.password": ""})
        == remaining_settings
    )


@pytest.mark.parametrize("key_location", ["inline", "file"])
def test_encrypted_key_is_decrypted(tmp_path: Path, key_location: str) -> None:
    client = make_authority().issue_certificate("client")
    settings = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.key.password": "hush"}
    if key_location == "file":
        (tmp_path / "me.pem").write_text(client.key_pem("hush") + client.chain_pem)
        settings["ssl.keystore.location"] = str(tmp_path / "me.pem")
    else:
        settings["ssl.keystore.key"] = client.key_pem("hush")
        settings["ssl.keystore.certificate.chain"] = client.chain_pem
    assert java_options(settings) == {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": client.key_pem(),
        "ssl.keystore.certificate.chain": client.chain_pem,
    }
    settings_with_wrong_password = {**settings, "ssl.key.password": "other"}
    assert java_options(settings_with_wrong_password) == settings_with_wrong_password


def test_newer_oauth_keys_are_converted_to_login_module_options() -> None:
    options = java_options(
        {
            **SETTINGS,
            "sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required clientId="old" extension_a="b";',
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": 'hu"sh\\',
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.scope.claim.name": "scp",
            "sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.ClientCredentialsJwtRetriever",
        }
    )
    module = parse_jaas(options.pop("sasl.jaas.config"))
    assert module.name == "OAuthBearerLoginModule"
    assert module.options == {
        "clientId": "me",
        "extension_a": "b",
        "clientSecret": 'hu"sh\\',
        "scope": "kafka",
    }
    assert options == {
        **SETTINGS,
        "sasl.oauthbearer.scope.claim.name": "scp",
        "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
    }


def test_custom_callback_handler_is_kept() -> None:
    settings = {
        **SETTINGS,
        "sasl.login.callback.handler.class": "io.strimzi.Handler",
        "sasl.oauthbearer.scope": "s",
    }
    assert java_options(settings) == settings


def test_invalid_login_module_error_omits_secret() -> None:
    with pytest.raises(ConfigInvalid, match="it must end with a semicolon") as raised:
        java_options({**SETTINGS, "sasl.jaas.config": 'a.B required clientSecret="hush"'})
    assert "hush" not in str(raised.value)
