"""Schema registry client of the converters: wraps confluent-kafka's client and translates its results and errors.

Converters are pickled to Spark's processes; the client and its cache are not, and each process creates its own. The
client is imported on first use, because the import takes a third of a second.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from typing_extensions import override

from kraal.config.key import Password
from kraal.converters.schema_registry import config as keys
from kraal.core.secrets import secrets
from kraal.plugins.api import RetriableError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient


_KAFKA = "org.apache.kafka.common.errors"


class SerializationException(Exception):
    """Invalid bytes or schema, or a schema that is unknown to the registry or rejected by it; a retry does not help."""

    java_class: ClassVar[str] = f"{_KAFKA}.SerializationException"


class RegistryRejected(Exception):
    """The registry rejects the client's credentials or permissions. Not an error of the record."""

    java_class: ClassVar[str] = f"{_KAFKA}.AuthenticationException"


class RegistryForbidden(RegistryRejected):
    """The registry authenticated the client but denies access."""

    java_class: ClassVar[str] = f"{_KAFKA}.AuthorizationException"


T = TypeVar("T")

_NEEDED: Final = ("authlib", "cachetools", "attrs", "certifi", "httpx2", "jsonschema", "referencing")
_PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP statuses for which a retry can succeed."""
_LEVELS: Final = 64
"""Maximum depth of references between schemas."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference from one schema to another."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as the registry stores it."""

    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Connection settings of the registry. `repr` hides secrets."""

    urls: tuple[str, ...]
    """Without user and password."""
    user_info: Password | None = None
    token: Password | None = None
    timeout_s: float = 60.0
    retries: int = 3
    retry_wait_ms: int = 1000
    retry_most_ms: int = 20_000
    capacity: int = 1000
    latest_ttl_s: int = -1

    @staticmethod
    def of(parsed: Mapping[str, Any]) -> Settings:
        """Read a converter's parsed config and register its secrets for redaction. Raises ValueError."""
        urls, in_url = _without_users(parsed[keys.URL])
        configured, token = _text(parsed[keys.USER_INFO]), _text(parsed[keys.TOKEN])
        user_info = configured if parsed[keys.CREDENTIALS_SOURCE] == "USER_INFO" else in_url
        secrets.add(configured, token, user_info)
        if parsed[keys.CREDENTIALS_SOURCE] == "USER_INFO" and ":" not in configured:
            raise ValueError(f"{keys.USER_INFO} must be given as user:password")
        if parsed[keys.TOKEN_SOURCE] and not token:
            raise ValueError(f"{keys.TOKEN} must be given where {keys.TOKEN_SOURCE} is STATIC_TOKEN")
        if user_info:
            secrets.add(user_info.partition(":")[2])
        return Settings(
            urls=urls,
            user_info=Password(user_info) if user_info else None,
            token=Password(token) if token and parsed[keys.TOKEN_SOURCE] else None,
            timeout_s=parsed[keys.TIMEOUT] / 1000,
            retries=parsed[keys.RETRIES],
            retry_wait_ms=parsed[keys.RETRY_WAIT],
            retry_most_ms=parsed[keys.RETRY_MAX_WAIT],
            capacity=parsed[keys.CACHE],
            latest_ttl_s=parsed[keys.LATEST_TTL],
        )

    def client_config(self) -> dict[str, Any]:
        """Return the settings of confluent-kafka's client."""
        settings: dict[str, Any] = {
            "url": ",".join(self.urls),
            "timeout": self.timeout_s,
            "max.retries": self.retries,
            "retries.wait.ms": self.retry_wait_ms,
            "retries.max.wait.ms": self.retry_most_ms,
            "cache.capacity": self.capacity,
        }
        if self.latest_ttl_s >= 0:
            settings["cache.latest.ttl.sec"] = self.latest_ttl_s
        if self.token is not None:
            settings["bearer.auth.credentials.source"] = "STATIC_TOKEN"
            settings["bearer.auth.token"] = self.token.value
            settings["bearer.auth.logical.cluster"] = ""
        elif self.user_info is not None:
            settings["basic.auth.user.info"] = self.user_info.value
        return settings


def _text(secret: Password | None) -> str:
    return "" if secret is None else secret.value


def _without_users(urls: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return the URLs without user and password, and the user and password of the first URL."""
    first = urlsplit(urls[0])
    user_info = None
    if first.username is not None:
        user_info = f"{unquote(first.username)}:{unquote(first.password or '')}"
    plain = [
        urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) for parts in map(urlsplit, urls)
    ]
    return tuple(plain), user_info


def check_installed() -> None:
    """Raise ValueError if packages that the client needs are missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"converters with a schema registry need packages that are not installed here ({', '.join(missing)}): "
            "install kraal[registry]"
        )


class SchemaRegistry:
    """A schema registry. Any thread; calls block until the registry answers or retries are exhausted."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: SchemaRegistryClient | None = None

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def schema(self, schema_id: int, subject: str | None, doing: str) -> SchemaText:
        """Return the schema with an ID. Raises SerializationException, RegistryRejected, RetriableError."""
        return self._request(
            doing, lambda client: _from_registry_schema(client.get_schema(schema_id, subject))
        )

    def version(self, schema_id: int, subject: str, doing: str) -> int | None:
        """Return the version of a subject that has an ID, or None. Raises the same errors as `schema`."""
        versions = self._request(
            doing, lambda client: client.get_schema_versions(schema_id, subject_name=subject)
        )
        return next((each.version for each in versions if each.subject == subject), None)

    def register(self, subject: str, schema: SchemaText, doing: str, *, normalize: bool) -> int:
        """Register a schema under a subject and return its ID. Raises the same errors as `schema`."""
        theirs = _to_registry_schema(schema)
        return self._request(doing, lambda client: client.register_schema(subject, theirs, normalize))

    def look_up_id(self, subject: str, schema: SchemaText, doing: str, *, normalize: bool) -> int:
        """Return the ID of a schema that is registered under a subject. Raises the same errors as `schema`."""
        theirs = _to_registry_schema(schema)
        schema_id = self._request(
            doing, lambda client: client.lookup_schema(subject, theirs, normalize).schema_id
        )
        return int(schema_id or 0)

    def latest_schema(self, subject: str, doing: str) -> tuple[int, SchemaText]:
        """Return ID and schema of a subject's latest version. Raises the same errors as `schema`."""
        version = self._request(doing, lambda client: client.get_latest_version(subject))
        return int(version.schema_id or 0), _from_registry_schema(version.schema)

    def referenced_schemas(self, schema: SchemaText, doing: str) -> dict[str, SchemaText]:
        """Return all schemas that a schema references, directly or not, by name. Raises the same errors as `schema`."""
        schemas: dict[str, SchemaText] = {}
        self._gather(schema, doing, schemas, 0)
        return schemas

    def _gather(self, schema: SchemaText, doing: str, schemas: dict[str, SchemaText], level: int) -> None:
        for each in schema.references:
            if each.name in schemas or level > _LEVELS:
                continue
            subject, version = each.subject, each.version
            part = self._request(
                doing,
                lambda client, subject=subject, version=version: _from_registry_schema(  # type: ignore[misc]
                    client.get_version(subject, version, deleted=True).schema
                ),
            )
            self._gather(part, doing, schemas, level + 1)
            schemas[each.name] = part

    def _request(self, doing: str, ask: Callable[[SchemaRegistryClient], T]) -> T:
        import httpx2  # noqa: PLC0415 - heavy; loaded with the client
        from confluent_kafka.schema_registry import SchemaRegistryError  # noqa: PLC0415 - the same

        try:
            return ask(self._client())
        except SchemaRegistryError as exc:
            text = f"{doing}: {exc}"
            if exc.http_status_code in _PASSING:
                raise RetriableError(text) from exc
            if exc.http_status_code == 401:  # noqa: PLR2004 - HTTP's
                raise RegistryRejected(text) from exc
            if exc.http_status_code == 403:  # noqa: PLR2004 - HTTP's
                raise RegistryForbidden(text) from exc
            raise SerializationException(text) from exc
        except httpx2.TransportError as exc:
            where = ",".join(self._settings.urls)
            raise RetriableError(f"{doing}: the schema registry at {where} does not answer: {exc}") from exc
        except ValueError as exc:
            raise SerializationException(
                f"{doing}: invalid response; check that {keys.URL} names a schema registry: {exc}"
            ) from exc

    def _client(self) -> SchemaRegistryClient:
        if self._made is None:
            from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415 - heavy

            self._made = SchemaRegistryClient(self._settings.client_config())
            weakref.finalize(self, self._made.close)  # converters have no close method
        return self._made


def _from_registry_schema(schema: Any) -> SchemaText:
    named = tuple(
        Reference(str(each.name), str(each.subject), int(each.version)) for each in schema.references or ()
    )
    return SchemaText(schema.schema_type or "AVRO", schema.schema_str or "", named)


def _to_registry_schema(schema: SchemaText) -> Any:
    from confluent_kafka.schema_registry import Schema, SchemaReference  # noqa: PLC0415 - heavy

    named = [SchemaReference(each.name, each.subject, each.version) for each in schema.references]
    return Schema(schema.text, schema.kind, named)
