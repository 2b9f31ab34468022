"""Conversion of Connect's client settings to librdkafka's: names, ranges, and certificates in memory.

Numbers are clamped to librdkafka's range, because the maximum in Java is often larger. Settings without a librdkafka
equivalent are dropped; `find_unsupported` lists those worth a warning.
Source: librdkafka's CONFIGURATION.md (2.16).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kraal.config.clients.security import KeyFormatter, OAuthLogin, Security, UserLogin, read_security
from kraal.config.values import invalid, trim
from kraal.core.errors import ConfigInvalid


@dataclass(frozen=True, slots=True)
class _Number:
    """An integer setting: its name and range in librdkafka, and the divisor that converts Java's unit."""

    name: str
    minimum: int
    maximum: int
    divisor: int = 1
    unlimited: int | None = None
    """The equivalent of Java's -1, or None if -1 has no special meaning."""

    def render(self, number: int) -> str:
        if number == -1 and self.unlimited is not None:
            return str(self.unlimited)
        return str(min(max(number // self.divisor, self.minimum), self.maximum))


_MAX_INT = 2_147_483_647
_DAY_MS = 86_400_000
_MAX_FETCH_BYTES = 2_147_483_135

_NUMBERS: Final[Mapping[str, _Number]] = MappingProxyType(
    {
        "auto.commit.interval.ms": _Number("auto.commit.interval.ms", 0, _DAY_MS),
        "batch.size": _Number("batch.size", 1, _MAX_INT),
        "buffer.memory": _Number("queue.buffering.max.kbytes", 1, _MAX_INT, divisor=1024),
        "connections.max.idle.ms": _Number("connections.max.idle.ms", 0, _MAX_INT, unlimited=0),
        "delivery.timeout.ms": _Number("delivery.timeout.ms", 0, _MAX_INT),
        "fetch.max.bytes": _Number("fetch.max.bytes", 1_000_000, _MAX_FETCH_BYTES),
        "fetch.max.wait.ms": _Number("fetch.wait.max.ms", 0, 298_000),
        "fetch.min.bytes": _Number("fetch.min.bytes", 1, 100_000_000),
        "heartbeat.interval.ms": _Number("heartbeat.interval.ms", 1, 3_600_000),
        "linger.ms": _Number("linger.ms", 0, 900_000),
        "max.in.flight.requests.per.connection": _Number(
            "max.in.flight.requests.per.connection", 1, 1_000_000
        ),
        "max.partition.fetch.bytes": _Number("max.partition.fetch.bytes", 1, 1_000_000_000),
        "max.poll.interval.ms": _Number("max.poll.interval.ms", 1, _DAY_MS),
        "max.request.size": _Number("message.max.bytes", 1000, 1_000_000_000),
        "metadata.max.age.ms": _Number("metadata.max.age.ms", 1, _DAY_MS),
        "metadata.recovery.rebootstrap.trigger.ms": _Number(
            "metadata.recovery.rebootstrap.trigger.ms", 0, _MAX_INT
        ),
        "receive.buffer.bytes": _Number("socket.receive.buffer.bytes", 0, 100_000_000, unlimited=0),
        "reconnect.backoff.max.ms": _Number("reconnect.backoff.max.ms", 0, 3_600_000),
        "reconnect.backoff.ms": _Number("reconnect.backoff.ms", 0, 3_600_000),
        "request.timeout.ms": _Number("socket.timeout.ms", 10, 300_000),
        "retries": _Number("retries", 0, _MAX_INT),
        "retry.backoff.max.ms": _Number("retry.backoff.max.ms", 1, 300_000),
        "retry.backoff.ms": _Number("retry.backoff.ms", 1, 300_000),
        "send.buffer.bytes": _Number("socket.send.buffer.bytes", 0, 100_000_000, unlimited=0),
        "session.timeout.ms": _Number("session.timeout.ms", 1, 3_600_000),
        "socket.connection.setup.timeout.ms": _Number("socket.connection.setup.timeout.ms", 1000, _MAX_INT),
        "transaction.timeout.ms": _Number("transaction.timeout.ms", 1000, _MAX_INT),
    }
)

_SAME_NAME_KEYS: Final = frozenset(
    {
        "acks", "allow.auto.create.topics", "auto.offset.reset", "bootstrap.servers", "check.crcs", "client.dns.lookup",
        "client.id", "client.rack", "compression.type", "enable.auto.commit", "enable.idempotence",
        "enable.metrics.push", "group.id", "group.instance.id", "isolation.level",
        "metadata.recovery.strategy", "transactional.id",
    }
)  # fmt: skip
"""String settings with the same name in librdkafka."""

_LOWERCASE_VALUES: Final = frozenset({"isolation.level", "metadata.recovery.strategy"})

_SECURITY_KEYS: Final = frozenset(
    {
        "sasl.client.callback.handler.class", "sasl.jaas.config", "sasl.login.callback.handler.class",
        "sasl.login.class", "sasl.mechanism", "security.protocol", "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class", "ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key",
        "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.certificates",
        "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
    }
)  # fmt: skip
"""Keys that `security.py` reads."""

_DROPPED_KEYS: Final = frozenset(
    {
        "auto.include.jmx.reporter", "bootstrap.resolve.timeout.ms",
        "default.api.timeout.ms", "exclude.internal.topics", "key.deserializer",
        "key.serializer", "max.block.ms", "max.poll.records", "metadata.max.idle.ms", "metric.reporters",
        "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms",
        "socket.connection.setup.timeout.max.ms", "ssl.enabled.protocols", "ssl.keymanager.algorithm",
        "ssl.protocol", "ssl.trustmanager.algorithm", "value.deserializer", "value.serializer",
    }
)  # fmt: skip
"""Settings of the Java clients that are dropped without a warning."""

_DROPPED_PREFIXES: Final = ("sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.", "compression.")


def librdkafka_options(settings: Mapping[str, str], format_key: KeyFormatter = str) -> dict[str, str]:
    """Convert a client's settings from the names of Kafka's Java clients to librdkafka's.

    Reads key stores and trust stores. The result contains secrets. Raises ConfigInvalid with all errors.
    """
    errors: list[str] = []
    options: dict[str, str] = {}
    for key, configured_text in settings.items():
        text = trim(configured_text)
        number = _NUMBERS.get(key)
        if number is not None:
            try:
                options[number.name] = number.render(int(text))
            except ValueError:
                errors.append(invalid(format_key(key), text, "Not a whole number"))
        elif key in _SAME_NAME_KEYS:
            options[key] = text.lower() if key in _LOWERCASE_VALUES else text
    options |= _compression_level(settings)
    _enforce_constraints(options)
    try:
        options |= _security_options(read_security(settings, format_key))
    except ConfigInvalid as exc:
        errors += exc.errors
    if errors:
        raise ConfigInvalid("\n".join(errors), errors)
    return options


def find_unsupported(settings: Mapping[str, str]) -> list[str]:
    """Return the unsupported keys that are worth a warning, sorted."""
    supported_keys = _NUMBERS.keys() | _SAME_NAME_KEYS | _SECURITY_KEYS | _DROPPED_KEYS
    return sorted(
        key for key in settings if key not in supported_keys and not key.startswith(_DROPPED_PREFIXES)
    )


def _compression_level(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the compression level of the configured codec; Java has a key per codec."""
    level = settings.get(f"compression.{settings.get('compression.type', 'none')}.level")
    return {"compression.level": str(min(int(level), 12))} if level and level.lstrip("-").isdecimal() else {}


def _enforce_constraints(options: dict[str, str]) -> None:
    """Enforce the constraints between settings that librdkafka has and Java does not."""

    def raise_to(name: str, lower_bound: str, margin: int = 0, default: int = 0) -> None:
        if lower_bound in options:
            options[name] = str(max(int(options.get(name, default)), int(options[lower_bound]) + margin))

    raise_to("reconnect.backoff.max.ms", "reconnect.backoff.ms", default=1000)
    raise_to("retry.backoff.max.ms", "retry.backoff.ms", default=1000)
    raise_to("socket.timeout.ms", "fetch.wait.max.ms", margin=2000, default=60_000)
    raise_to("max.poll.interval.ms", "session.timeout.ms", default=300_000)
    raise_to("fetch.max.bytes", "message.max.bytes", default=52_428_800)
    raise_to("receive.message.max.bytes", "fetch.max.bytes", margin=512, default=100_000_000)
    if options.get("delivery.timeout.ms", "0") != "0":  # 0: no timeout
        raise_to("delivery.timeout.ms", "linger.ms", margin=1)
    if (
        max_age_ms := options.get("metadata.max.age.ms")
    ) is not None:  # Java refreshes metadata that reaches this age
        options["topic.metadata.refresh.interval.ms"] = str(min(int(max_age_ms), 3_600_000))


def _security_options(security: Security) -> dict[str, str]:
    options = {"security.protocol": str(security.protocol)}
    if (tls := security.tls) is not None:
        options["ssl.endpoint.identification.algorithm"] = "https" if tls.check_host else "none"
        if tls.trusted is not None:
            options["ssl.ca.pem"] = tls.trusted
        if tls.identity is not None:
            options["ssl.certificate.pem"] = tls.identity.chain
            options["ssl.key.pem"] = tls.identity.key
    match security.login:
        case UserLogin(mechanism, user, password):
            options |= {
                "sasl.mechanisms": mechanism,
                "sasl.username": user,
                "sasl.password": password.value,
            }
        case OAuthLogin() as login:
            options |= _oauth_options(login)
        case None:
            pass
    return options


def _oauth_options(login: OAuthLogin) -> dict[str, str]:
    options = {
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": login.url,
        "sasl.oauthbearer.client.id": login.client_id,
        "sasl.oauthbearer.client.secret": login.client_secret.value,
    }
    if login.scope:
        options["sasl.oauthbearer.scope"] = login.scope
    if login.extensions:
        pairs = (f"{name}={value}" for name, value in login.extensions.items())
        options["sasl.oauthbearer.extensions"] = ",".join(pairs)
    if login.trusted is not None:
        options["https.ca.pem"] = login.trusted
    return options
