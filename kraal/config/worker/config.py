"""The config common to all workers: validation as a whole and conversion to Python values.

All errors are reported together, each with the key, the value and the allowed values. As in Connect, unknown keys are
not errors. Each unknown key causes a warning that suggests the most similar known key. `standalone.py` and
`distributed.py` add their own keys.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Self

from kraal.config.clients.checks import client_errors
from kraal.config.clients.keys import client_def, client_names
from kraal.config.clients.librdkafka import find_unsupported
from kraal.config.clients.overrides import Allowlist, OverridePolicy, WorkerPolicy
from kraal.config.connector.auto_restart import STALL_TIMEOUT, AutoRestart, worker_policy
from kraal.config.key import ConfigDef
from kraal.config.values import Resolve, as_strings, trim
from kraal.config.worker.basic_auth import EXTENSIONS, JAAS_FILE, BasicAuth, read_basic_auth
from kraal.config.worker.keys import (
    ALLOWLIST,
    BODIES_MAX,
    CONTROL_PORT,
    HISTORY_MAX,
    POLICY,
    PREFIXES,
    REST,
    UI,
    UI_READ_ONLY,
    WAITING_MAX,
    WORKER,
    WORKER_FAMILIES,
    policy_errors,
)
from kraal.config.worker.listeners import Listener, advertise, parse_listeners
from kraal.config.worker.response_headers import HeaderRule, parse_header_rules
from kraal.config.worker.rest_tls import https_errors, https_warnings
from kraal.config.worker.spark_cluster import cluster_errors, launch_warnings
from kraal.core.errors import ConfigInvalid
from kraal.core.ids import WorkerId

ResolveVariables = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Replaces variables with the values of config providers."""

_MIN_SIMILARITY: Final = 0.75
"""The minimum similarity at which one key is assumed to be a misspelling of another."""
_MISSING_KEY_ERROR: Final = re.compile(r'Missing required configuration "([^"]+)" ')
_PLUGIN_KEYS: Final = re.compile(
    r"config\.providers\.[^.]+\.param\.|(?:key|value|header)\.converter\.(?!plugin\.version$)"
)
"""Keys whose values are passed to plugins without trimming."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """The config of a worker. Times are in seconds; mappings are immutable.

    `repr` omits fields that may contain secrets.
    """

    bootstrap_servers: str
    key_converter: str
    value_converter: str
    header_converter: str
    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    """None if the REST listeners also serve /admin; empty if /admin is disabled."""
    advertised_url: str
    """The advertised URL, which ends with `/`. May have port 0 until `with_ports` sets the actual port."""
    worker_id: WorkerId
    graceful_timeout_s: float
    topic_tracking: bool
    topic_tracking_reset: bool
    topic_creation: bool
    override_policy: WorkerPolicy
    """The override policy; `OverridePolicy.NONE` for a class in `plugin.path` until plugins are loaded."""
    metrics_endpoint: bool
    """Whether `GET /metrics` is enabled."""
    tracing: bool
    """Whether traces of batches are sent to OpenTelemetry."""
    dead_letters_endpoint: bool
    """Whether the REST API returns and replays dead letters."""
    metrics_window_s: float
    metrics_samples: int
    auto_restart: AutoRestart
    """The restart policy of connectors that do not configure one."""
    stall_timeout_s: float
    """Maximum duration of a step before a task is reported as stalled; 0 for unlimited."""
    ui: bool
    """Whether the dashboard is served."""
    ui_read_only: bool
    waiting_max: int
    """Maximum number of REST requests that may wait for one component of the worker."""
    bodies_max_bytes: int
    """Maximum total size of the bodies of pending requests."""
    history_max_bytes: int
    """Maximum memory for the history that the REST API returns; 0 if no history is recorded."""
    test_control_port: int | None
    """The loopback port of the control server, through which tests kill actors.

    0 for any free port; None if the control server is disabled.
    """
    cors_origin: str
    cors_methods: str
    response_headers: tuple[HeaderRule, ...]
    basic_auth: BasicAuth | None
    """The users of the REST API; None if authentication is disabled."""
    spark: Mapping[str, str] = field(repr=False)
    """Settings of Spark, with their prefix, such as `spark.master`."""
    client: Mapping[str, str] = field(repr=False)
    """Settings of the worker's own clients, such as `security.protocol`, without the bootstrap servers."""
    raw: Mapping[str, str] = field(repr=False)
    """The properties, with variables resolved."""
    warnings: tuple[str, ...]
    """Messages for the log."""

    @property
    def group(self) -> str | None:
        """The id of the workers' group; None for a standalone worker."""
        return None

    @property
    def exactly_once_sources(self) -> bool:
        """Whether source tasks write in transactions."""
        return False

    @property
    def own_client(self) -> dict[str, str]:
        """The settings of the worker's own clients, keyed by the names that Kafka's Java clients use."""
        return {**self.client, "bootstrap.servers": self.bootstrap_servers}

    @property
    def dashboard(self) -> str:
        """A sentence that describes where the dashboard is served."""
        if not self.ui:
            return "The dashboard is disabled (ui.enabled)."
        if self.admin_listeners is None:
            return f"The dashboard is at {self.advertised_url}ui/"
        if not self.admin_listeners:
            return "The dashboard is not served, because admin.listeners is empty."
        return "The dashboard is at /ui/ of the listeners in admin.listeners."

    def with_ports(self, *ports: int) -> Self:
        """Return a copy with the actual ports of listeners with port 0."""
        url = advertise(self.listeners, REST.parse(self.raw), bound_ports=ports)
        return replace(self, advertised_url=url, worker_id=_worker_id(url))


@dataclass(frozen=True, slots=True)
class ValidatedProperties:
    """A worker's properties after validation, with the errors so far."""

    raw: Mapping[str, str] = field(repr=False)
    values: Mapping[str, object]
    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    basic_auth: BasicAuth | None
    errors: list[str]

    def text(self, name: str) -> str:
        """Return the value of a key as a string; empty if it is not set."""
        return str(self.values[name] or "")

    def number(self, name: str) -> int:
        """Return the integer value of a key; 0 if it is not set."""
        return int(self.text(name) or 0)

    def seconds(self, name: str) -> float:
        """Return the value of a key in seconds. The unit of the key must be milliseconds."""
        return self.number(name) / 1000

    def raise_errors(self) -> None:
        """Raise ConfigInvalid if there are errors."""
        if self.errors:
            unknown_keys = [name for name in self.raw if name not in self.values]
            errors = [_suggest_misspelled(error, unknown_keys) for error in self.errors]
            text = "\n".join(errors)
            raise ConfigInvalid(f"The worker's configuration is invalid:\n{text}", errors)


def trimmed_values(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with trimmed values, except values that are passed to plugins.

    Source: ConfigDef.parseType (Kafka 4.4.0), which trims values of all types.
    """
    return {key: text if _PLUGIN_KEYS.match(key) else trim(text) for key, text in raw.items()}


def check_worker(
    definition: ConfigDef, raw: Mapping[str, str], *, resolve: Resolve | None
) -> ValidatedProperties:
    """Validate each key of a worker, and the combinations of keys that are common to all workers.

    `definition` must contain all keys of the worker. Reads the stores of clients and listeners, and the REST users.
    """
    config_values = definition.validate(raw, resolve=resolve)
    values = {key_value.name: key_value.value for key_value in config_values}
    errors = [error for key_value in config_values for error in key_value.errors] + policy_errors(raw)
    errors += cluster_errors(raw)
    listeners, listener_errors = parse_listeners("listeners", as_strings(values["listeners"]))
    errors += listener_errors
    admin_listeners: tuple[Listener, ...] | None = None
    if values["admin.listeners"] is not None:
        admin_listeners, listener_errors = parse_listeners(
            "admin.listeners", as_strings(values["admin.listeners"])
        )
        errors += listener_errors
    errors += https_errors(raw, listeners, admin_listeners)
    basic_auth = None
    try:
        basic_auth = read_basic_auth(raw)
    except ConfigInvalid as exc:
        errors += exc.errors
    own_settings = {name: value for name, value in raw.items() if name in own_client_keys()}
    reported_errors = set(errors)
    errors += [
        error for error in client_errors(raw, own_settings, definition) if error not in reported_errors
    ]
    return ValidatedProperties(raw, values, listeners, admin_listeners, basic_auth, errors)


def worker_fields(properties: ValidatedProperties, warnings: Iterable[str]) -> dict[str, Any]:
    """Return the values of the fields of `WorkerConfig`."""
    raw, values = properties.raw, properties.values
    text, seconds = properties.text, properties.seconds
    url = advertise(properties.listeners, values)
    own_keys = own_client_keys()
    return {
        "bootstrap_servers": ",".join(as_strings(values["bootstrap.servers"])),
        "key_converter": text("key.converter"),
        "value_converter": text("value.converter"),
        "header_converter": text("header.converter"),
        "listeners": properties.listeners,
        "admin_listeners": properties.admin_listeners,
        "advertised_url": url,
        "worker_id": _worker_id(url),
        "graceful_timeout_s": seconds("task.shutdown.graceful.timeout.ms"),
        "topic_tracking": values["topic.tracking.enable"] is True,
        "topic_tracking_reset": values["topic.tracking.allow.reset"] is True,
        "topic_creation": values["topic.creation.enable"] is True,
        "override_policy": _parse_policy(text(POLICY), as_strings(values[ALLOWLIST])),
        "metrics_endpoint": values["metrics.endpoint.enabled"] is True,
        "tracing": values["tracing.enabled"] is True,
        "dead_letters_endpoint": values["rest.dead.letters.enabled"] is True,
        "metrics_window_s": seconds("metrics.sample.window.ms"),
        "metrics_samples": properties.number("metrics.num.samples"),
        "auto_restart": worker_policy(values),
        "stall_timeout_s": seconds(STALL_TIMEOUT),
        "ui": values[UI] is True,
        "ui_read_only": values[UI_READ_ONLY] is True,
        "waiting_max": properties.number(WAITING_MAX),
        "bodies_max_bytes": properties.number(BODIES_MAX),
        "history_max_bytes": properties.number(HISTORY_MAX),
        "test_control_port": None if values[CONTROL_PORT] is None else properties.number(CONTROL_PORT),
        "cors_origin": text("access.control.allow.origin"),
        "cors_methods": text("access.control.allow.methods"),
        "response_headers": parse_header_rules(text("response.http.headers.config")),
        "basic_auth": properties.basic_auth,
        "spark": MappingProxyType({name: value for name, value in raw.items() if name.startswith("spark.")}),
        "client": MappingProxyType({name: value for name, value in raw.items() if name in own_keys}),
        "raw": MappingProxyType(dict(raw)),
        "warnings": tuple(warnings),
    }


@cache
def own_client_keys() -> frozenset[str]:
    """Return the keys that configure the worker's own clients; they have no prefix."""
    worker_keys = {key.name for key in WORKER} - {"client.dns.lookup"}
    return frozenset(key.name for key in client_def("admin")) - worker_keys


def _suggest_misspelled(error: str, unknown_keys: Iterable[str]) -> str:
    """Extend an error about a missing key with the unknown key that is probably a misspelling of the missing key."""
    if (match := _MISSING_KEY_ERROR.match(error)) is None:
        return error
    key = match[1]
    candidates = [name for name in unknown_keys if not name.startswith(f"{key}.")]
    matches = difflib.get_close_matches(key, candidates, n=1, cutoff=_MIN_SIMILARITY)
    return f"{error} The unknown key {matches[0]} is ignored; did you mean {key}?" if matches else error


def suggest_key(name: str, known_keys: Iterable[str]) -> str:
    """Return the end of a message about an unknown key: the most similar known key, or only a period."""
    matches = difflib.get_close_matches(name, sorted(known_keys), n=1, cutoff=_MIN_SIMILARITY)
    return f"; did you mean {matches[0]}?" if matches else "."


def worker_warnings(
    raw: Mapping[str, str],
    definition: ConfigDef,
    ignore_reasons: Mapping[str, str],
    prefixes: tuple[str, ...] = (),
) -> list[str]:
    """Return warnings about ignored and unknown keys.

    `ignore_reasons` maps keys, and prefixes that end with a period, to the reasons why these keys are ignored. Keys
    that start with one of `prefixes` cause no warning, because the caller handles these keys.
    """
    known_keys = {key.name for key in definition} | own_client_keys()
    warnings = [
        f"{key.name} is ignored: {key.no_effect}."
        for key in definition
        if key.no_effect and key.name in raw and key.name not in own_client_keys()
    ]
    warnings += [
        f"{name} is ignored: {family.no_effect}."
        for name in raw
        for family in WORKER_FAMILIES
        if family.no_effect and name.startswith(family.prefix) and name not in definition
    ]
    warnings += https_warnings(raw)
    warnings += launch_warnings(raw)
    if raw.get(JAAS_FILE) and not raw.get(EXTENSIONS):
        warnings.append(
            f"{JAAS_FILE} is ignored: {EXTENSIONS} names no extension, so REST requires no authentication."
        )
    own_settings = {name: value for name, value in raw.items() if name in own_client_keys()}
    warnings += [
        f"{name} has no effect on the worker's own Kafka clients, which are not Java clients."
        for name in find_unsupported(own_settings)
    ]
    for name in raw:
        if name in known_keys:
            continue
        reason = ignore_reasons.get(name)
        if reason is None and suggest_key(name, known_keys) == ".":
            reason = next(
                (ignore_reasons[key] for key in ignore_reasons if key[-1] == "." and name.startswith(key)),
                None,
            )
        if reason is not None:
            warnings.append(f"{name} is ignored: {reason}.")
        elif name.startswith((*PREFIXES, *prefixes)):
            continue
        elif name in client_names():
            warnings.append(f"{name} is ignored: it needs a client's prefix, such as consumer.{name}.")
        else:
            warnings.append(f"{name} is ignored: unknown configuration{suggest_key(name, known_keys)}")
    return warnings


def _parse_policy(name: str, allowlist: Iterable[str]) -> WorkerPolicy:
    """Return the policy with this name; `OverridePolicy.NONE` for a class in `plugin.path`, which is not loaded yet."""
    policy = OverridePolicy.parse(name) or OverridePolicy.NONE
    return Allowlist(frozenset(allowlist)) if policy is OverridePolicy.ALLOWLIST else policy


def _worker_id(url: str) -> WorkerId:
    return WorkerId(url.partition("://")[2].removesuffix("/"))
