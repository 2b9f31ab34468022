"""A broker with authentication, and with authorization by ACLs, as in production.

SASL_SSL    SCRAM-SHA-256, SCRAM-SHA-512, PLAIN, OAUTHBEARER
SSL         for clients with a certificate
PLAINTEXT   for the broker and for tests, as a super user
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from kraal.broker.broker import HOST, Broker, free_port
from tests.fakes.kafka.certificates import PASSWORD, Certified, make_authority
from tests.fakes.kafka.token_endpoint import TokenEndpoint, token_endpoint

ck: Any = admin
"""The admin module as Any, because type checkers do not treat the names that it imports as exported."""

USER, SECRET = "worker", 'a "quoted" secret, =100%'
PACKAGE = "org.apache.kafka.common.security"
_MODULES = {"PLAIN": f"{PACKAGE}.plain.PlainLoginModule", "SCRAM": f"{PACKAGE}.scram.ScramLoginModule"}
_ALLOWED_URLS = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls"
_SCRAM = {
    "SCRAM-SHA-256": ck.ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ck.ScramMechanism.SCRAM_SHA_512,
}


@dataclass(frozen=True)
class SecuredKafka:
    """A running broker with its certificate authority. Client settings have the names of Kafka's Java client."""

    broker: Broker
    sasl_port: int
    ssl_port: int
    root: Certified
    client: Certified
    """The certificate of `User:CN=worker` for the listener SSL."""
    directory: Path
    endpoint: TokenEndpoint
    """Issues tokens for `worker`."""

    @property
    def plain(self) -> str:
        """The address of the listener without authorization."""
        return self.broker.bootstrap

    @property
    def trust(self) -> dict[str, str]:
        """The settings of the clients' trust store (PKCS12)."""
        return {
            "ssl.truststore.location": str(self.directory / "trust.p12"),
            "ssl.truststore.password": PASSWORD,
            "ssl.truststore.type": "PKCS12",
        }

    def login(self, mechanism: str, *, user: str = USER, password: str = SECRET) -> dict[str, str]:
        """Return the settings of a client with user and password."""
        module = _MODULES[mechanism.partition("-")[0]]
        return {
            "bootstrap.servers": f"{HOST}:{self.sasl_port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{_escape(password)}";',
            **self.trust,
        }

    def token(self) -> dict[str, str]:
        """Return the settings of a client with client credentials."""
        return {
            "bootstrap.servers": f"{HOST}:{self.sasl_port}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.endpoint.url,
            "sasl.oauthbearer.client.credentials.client.id": USER,
            "sasl.oauthbearer.client.credentials.client.secret": "token secret",
            "sasl.oauthbearer.scope": "kafka",
            **self.trust,
        }

    def certificate(self) -> dict[str, str]:
        """Return the settings of a client with a certificate."""
        return {
            "bootstrap.servers": f"{HOST}:{self.ssl_port}",
            "security.protocol": "SSL",
            "ssl.keystore.location": str(self.directory / "client.p12"),
            "ssl.keystore.password": PASSWORD,
            "ssl.keystore.type": "PKCS12",
            **self.trust,
        }

    def allow(self, kind: str, prefix: str, *operations: str) -> None:
        """Allow `worker` to perform `operations` (`READ`, …) on resources of a `kind` (`TOPIC`, …) with a prefix."""
        pattern = ck.ResourcePatternType.PREFIXED
        acls = [
            ck.AclBinding(
                ck.ResourceType[kind],
                prefix,
                pattern,
                principal,
                "*",
                ck.AclOperation[operation],
                ck.AclPermissionType.ALLOW,
            )
            for principal in (f"User:{USER}", f"User:CN={USER}")
            for operation in operations
        ]
        client = self.admin()  # deleting the client would cancel the request
        for future in client.create_acls(acls).values():
            future.result(20)

    def allow_worker(self, group: str, *data_topics: str) -> None:
        """Grant `worker` the permissions in docs/security.md for the workers of a group. All names are prefixes.

        The names of the internal topics must start with the group's name.
        """
        self.allow("GROUP", group, "READ", "DESCRIBE")
        self.allow("TOPIC", group, "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")
        self.allow("TRANSACTIONAL_ID", f"connect-cluster-{group}", "DESCRIBE", "WRITE")
        for prefix in data_topics:
            self.allow("TOPIC", prefix, "READ", "WRITE", "CREATE")
        self.allow("GROUP", "connect-", "READ")

    def admin(self) -> admin.AdminClient:
        """Return an admin client with all permissions."""
        return admin.AdminClient({"bootstrap.servers": self.plain})


@contextmanager
def secured_kafka(directory: Path, patch: pytest.MonkeyPatch) -> Iterator[SecuredKafka]:
    """Start the broker with the user `worker`, and stop it at the end of the block."""
    root = make_authority("root")
    client = root.issue_certificate("middle", is_authority=True).issue_certificate(USER)
    root.trust_store(directory / "trust.p12")
    root.issue_certificate("broker", address=HOST).key_store(directory / "broker.p12")
    client.key_store(directory / "client.p12")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    keys = directory / "keys.json"
    keys.write_text(json.dumps({"keys": [_to_jwk(key)]}))
    patch.setenv("JAVA_TOOL_OPTIONS", f"{_ALLOWED_URLS}={keys.as_uri()}")  # the broker requires both settings
    sasl_port, ssl_port = free_port(), free_port()
    with token_endpoint() as endpoint:
        endpoint.respond = lambda _: {"access_token": _sign_token(key), "expires_in": 300}
        port = free_port()
        broker = Broker(directory / "kafka", port, extra=_settings(directory, port, sasl_port, ssl_port))
        broker.start()
        try:
            kafka = SecuredKafka(broker, sasl_port, ssl_port, root, client, directory, endpoint)
            _add_user(kafka)
            yield kafka
        finally:
            broker.stop()


def _settings(directory: Path, port: int, sasl_port: int, ssl_port: int) -> dict[str, str]:
    controller_port = free_port()
    listeners = (
        f"PLAINTEXT://{HOST}:{port}",
        f"SASL_SSL://{HOST}:{sasl_port}",
        f"SSL://{HOST}:{ssl_port}",
    )
    prefix = "listener.name.sasl_ssl"
    users = f'user_{USER}="{_escape(SECRET)}"'.replace("\\", "\\\\")  # escaped for a properties file
    return {
        "listeners": ",".join((*listeners, f"CONTROLLER://{HOST}:{controller_port}")),
        "advertised.listeners": ",".join(listeners),
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,CONTROLLER:PLAINTEXT"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.location": str(directory / "broker.p12"),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": str(directory / "trust.p12"),
        "ssl.truststore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{_MODULES['SCRAM']} required;",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{_MODULES['SCRAM']} required;",
        f"{prefix}.plain.sasl.jaas.config": f"{_MODULES['PLAIN']} required {users};",
        f"{prefix}.oauthbearer.sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
            f"{PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": (directory / "keys.json").as_uri(),
        f"{prefix}.sasl.oauthbearer.expected.audience": "kafka",
    }


def _add_user(kafka: SecuredKafka) -> None:
    """Set a password for `worker`, like `kafka-configs.sh`, and wait until it is effective."""
    client: Any = kafka.admin()
    for mechanism in _SCRAM.values():
        info = ck.ScramCredentialInfo(mechanism, 4096)
        change = ck.UserScramCredentialUpsertion(USER, info, SECRET.encode())
        for future in client.alter_user_scram_credentials([change]).values():
            future.result(20)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        description = client.describe_user_scram_credentials([USER])[USER].result(20)
        if len(description.scram_credential_infos) == len(_SCRAM):
            return
    raise AssertionError("the broker did not apply the SCRAM credentials in time")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _sign_token(key: rsa.RSAPrivateKey) -> str:
    """Return a signed token for `worker` that is valid for five minutes."""
    now = int(time.time())
    claims = {"sub": USER, "aud": "kafka", "scope": "kafka", "iat": now, "exp": now + 300}
    parts = [_encode_json({"alg": "RS256", "typ": "JWT", "kid": "test"}), _encode_json(claims)]
    signature = key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
    return ".".join([*parts, _base64(signature)])


def _to_jwk(key: rsa.RSAPrivateKey) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    size = (numbers.n.bit_length() + 7) // 8
    modulus, exponent = numbers.n.to_bytes(size, "big"), numbers.e.to_bytes(3, "big")
    names = {"kty": "RSA", "kid": "test", "use": "sig", "alg": "RS256"}
    return {**names, "n": _base64(modulus), "e": _base64(exponent)}


def _encode_json(content: Mapping[str, Any]) -> str:
    return _base64(json.dumps(content).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
