"""What every worker's config has: checked as a whole, and turned into Python's own values.

Every error is told at once, each with its key, its value and what is allowed. Keys that nobody knows are no
error, as in Connect, but each gets a warning that names the nearest known one. `standalone.py` and
`distributed.py` add what is their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Self

from kraal.config.basic_auth import EXTENSIONS, JAAS_FILE, BasicAuth, read_basic_auth
from kraal.config.clients import client_def, client_names
from kraal.config.kafka.checks import client_errors
from kraal.config.kafka.librdkafka import unknown_to_librdkafka
from kraal.config.key import ConfigDef
from kraal.config.listeners import Listener, advertise, parse_listeners
from kraal.config.overrides import OverridePolicy
from kraal.config.response_headers import HeaderRule, parse_header_rules
from kraal.config.rest_tls import https_errors, https_warnings
from kraal.config.supervision import STALL_TIMEOUT, AutoRestart, worker_policy
from kraal.config.values import Resolve, as_strings
from kraal.config.worker_keys import (
    BODIES_MAX,
    CONTROL_PORT,
    PREFIXES,
    REST,
    WAITING_MAX,
    WORKER,
    WORKER_FAMILIES,
)
from kraal.errors import ConfigInvalid
from kraal.ids import WorkerId

_CONVERTERS = ("key.converter", "value.converter", "header.converter")
WithoutVariables = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Puts the values of config providers in the places of variables."""

_NEAR: Final = 0.75
"""How alike two keys must be for one to be the other's typing error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What every worker is told. Times are seconds; mappings cannot be changed.

    What may hold secrets is left out of `repr`.
    """

    bootstrap_servers: str
    key_converter: str
    value_converter: str
    header_converter: str
    converter_configs: Mapping[str, Mapping[str, str]] = field(repr=False)
    """By `key.converter`, `value.converter`, `header.converter`: what is set for it, prefix removed."""
    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    """None: /admin is where the rest is; empty: nowhere."""
    advertised_url: str
    """Ends with `/`; has port 0 until `bound_to` says which port it became."""
    worker_id: WorkerId
    poll_interval_s: float
    graceful_timeout_s: float
    offset_flush_interval_s: float
    offset_flush_timeout_s: float
    topic_tracking: bool
    topic_tracking_reset: bool
    topic_creation: bool
    override_policy: OverridePolicy
    metrics_endpoint: bool
    """Whether there is `GET /metrics`."""
    metrics_window_s: float
    metrics_samples: int
    auto_restart: AutoRestart
    """What becomes of what has failed, where a connector does not say it."""
    stall_timeout_s: float
    """How long one step of a task may take before it counts as stalled; 0: for ever."""
    waiting_max: int
    """How many requests over REST may wait for one part of the worker."""
    bodies_max_bytes: int
    """How much all bodies of requests may have that are not answered yet."""
    test_control_port: int | None
    """Where actors may be killed, on loopback; 0: any free port; None: nowhere."""
    cors_origin: str
    cors_methods: str
    response_headers: tuple[HeaderRule, ...]
    basic_auth: BasicAuth | None
    """Who may use REST; None: everybody."""
    spark: Mapping[str, str] = field(repr=False)
    """Spark's settings, with their prefix: `spark.master`."""
    client: Mapping[str, str] = field(repr=False)
    """Settings of the worker's own clients, such as `security.protocol`, without the bootstrap servers."""
    producer: Mapping[str, str] = field(repr=False)
    consumer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, str] = field(repr=False)
    """Settings of one kind of client that connectors get, prefix removed."""
    raw: Mapping[str, str] = field(repr=False)
    """As written, without variables."""
    warnings: tuple[str, ...]
    """A sentence each, for the log."""

    @property
    def group(self) -> str | None:
        """The workers' group; None: the worker is alone."""
        return None

    @property
    def exactly_once_sources(self) -> bool:
        """Whether sources write in transactions."""
        return False

    @property
    def own_client(self) -> dict[str, str]:
        """What the worker's own clients are made with, in Connect's words: for `kraal.config.kafka`."""
        return {**self.client, "bootstrap.servers": self.bootstrap_servers}

    def bound_to(self, *ports: int) -> Self:
        """Return the config with the ports that the listeners got, where they asked for any."""
        url = advertise(self.listeners, REST.parse(self.raw), bound_ports=ports)
        return replace(self, advertised_url=url, worker_id=_worker_id(url))


@dataclass(frozen=True, slots=True)
class Checked:
    """A worker's properties after checking; `errors` is what is wrong so far."""

    raw: Mapping[str, str] = field(repr=False)
    values: Mapping[str, object]
    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    basic_auth: BasicAuth | None
    errors: list[str]

    def text(self, name: str) -> str:
        """Return a text; empty where there is none."""
        return str(self.values[name] or "")

    def number(self, name: str) -> int:
        """Return a whole number; 0 where there is none."""
        return int(self.text(name) or 0)

    def seconds(self, name: str) -> float:
        """Return as seconds what is given in milliseconds."""
        return self.number(name) / 1000

    def refuse_errors(self) -> None:
        """Raise ConfigInvalid when there are errors."""
        if self.errors:
            text = "\n".join(self.errors)
            raise ConfigInvalid(f"The worker's configuration is wrong:\n{text}", self.errors)


def check_worker(definition: ConfigDef, raw: Mapping[str, str], *, resolve: Resolve | None) -> Checked:
    """Check what all workers have in common, with the stores of Kafka clients; `definition` has all keys."""
    checked = definition.validate(raw, resolve=resolve)
    values = {each.name: each.value for each in checked}
    errors = [error for each in checked for error in each.errors]
    listeners, wrong = parse_listeners("listeners", as_strings(values["listeners"]))
    errors += wrong
    admin: tuple[Listener, ...] | None = None
    if values["admin.listeners"] is not None:
        admin, wrong = parse_listeners("admin.listeners", as_strings(values["admin.listeners"]))
        errors += wrong
    errors += https_errors(raw, listeners, admin)
    basic_auth = None
    try:
        basic_auth = read_basic_auth(raw)
    except ConfigInvalid as exc:
        errors += exc.errors
    own = {name: value for name, value in raw.items() if name in own_client_keys()}
    told = set(errors)
    errors += [error for error in client_errors(raw, own, definition) if error not in told]
    return Checked(raw, values, listeners, admin, basic_auth, errors)


def worker_fields(checked: Checked, warnings: Iterable[str]) -> dict[str, Any]:
    """Return the fields of `WorkerConfig` with checked values in their places."""
    raw, values = checked.raw, checked.values
    text, seconds = checked.text, checked.seconds
    url = advertise(checked.listeners, values)
    own = own_client_keys()
    return {
        "bootstrap_servers": ",".join(as_strings(values["bootstrap.servers"])),
        "key_converter": text("key.converter"),
        "value_converter": text("value.converter"),
        "header_converter": text("header.converter"),
        "converter_configs": MappingProxyType({name: below(raw, f"{name}.") for name in _CONVERTERS}),
        "listeners": checked.listeners,
        "admin_listeners": checked.admin_listeners,
        "advertised_url": url,
        "worker_id": _worker_id(url),
        "poll_interval_s": seconds("poll.interval.ms"),
        "graceful_timeout_s": seconds("task.shutdown.graceful.timeout.ms"),
        "offset_flush_interval_s": seconds("offset.flush.interval.ms"),
        "offset_flush_timeout_s": seconds("offset.flush.timeout.ms"),
        "topic_tracking": values["topic.tracking.enable"] is True,
        "topic_tracking_reset": values["topic.tracking.allow.reset"] is True,
        "topic_creation": values["topic.creation.enable"] is True,
        "override_policy": OverridePolicy.parse(text("connector.client.config.override.policy"))
        or OverridePolicy.NONE,
        "metrics_endpoint": values["metrics.endpoint.enabled"] is True,
        "metrics_window_s": seconds("metrics.sample.window.ms"),
        "metrics_samples": checked.number("metrics.num.samples"),
        "auto_restart": worker_policy(values),
        "stall_timeout_s": seconds(STALL_TIMEOUT),
        "waiting_max": checked.number(WAITING_MAX),
        "bodies_max_bytes": checked.number(BODIES_MAX),
        "test_control_port": None if values[CONTROL_PORT] is None else checked.number(CONTROL_PORT),
        "cors_origin": text("access.control.allow.origin"),
        "cors_methods": text("access.control.allow.methods"),
        "response_headers": parse_header_rules(text("response.http.headers.config")),
        "basic_auth": checked.basic_auth,
        "spark": MappingProxyType({name: value for name, value in raw.items() if name.startswith("spark.")}),
        "client": MappingProxyType({name: value for name, value in raw.items() if name in own}),
        "producer": below(raw, "producer."),
        "consumer": below(raw, "consumer."),
        "admin": below(raw, "admin.", without="admin.listeners"),
        "raw": MappingProxyType(dict(raw)),
        "warnings": tuple(warnings),
    }


@cache
def own_client_keys() -> frozenset[str]:
    """Return the keys that go to the worker's own clients without a prefix."""
    shared = {key.name for key in WORKER} - {"client.dns.lookup"}
    return frozenset(key.name for key in client_def("admin")) - shared


def below(raw: Mapping[str, str], prefix: str, *, without: str | None = None) -> Mapping[str, str]:
    """Return the part under a prefix, without it."""
    return MappingProxyType(
        {
            name.removeprefix(prefix): value
            for name, value in raw.items()
            if name.startswith(prefix) and (without is None or not name.startswith(without))
        }
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown key: the known key that it may have been meant to be."""
    near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=_NEAR)
    return f"; did you mean {near[0]}?" if near else "."


def worker_warnings(
    raw: Mapping[str, str],
    definition: ConfigDef,
    elsewhere: Mapping[str, str],
    prefixes: tuple[str, ...] = (),
) -> list[str]:
    """Say what is passed over, and what nobody knows.

    `elsewhere` says of keys, or of prefixes that end with a period, why they are ignored here. Of what begins
    with one of `prefixes` the caller speaks.
    """
    known = {key.name for key in definition} | own_client_keys()
    found = [
        f"{key.name} is ignored: {key.no_effect}."
        for key in definition
        if key.no_effect and key.name in raw and key.name not in own_client_keys()
    ]
    found += [
        f"{name} is ignored: {family.no_effect}."
        for name in raw
        for family in WORKER_FAMILIES
        if family.no_effect and name.startswith(family.prefix) and name not in definition
    ]
    found += https_warnings(raw)
    if raw.get(JAAS_FILE) and not raw.get(EXTENSIONS):
        found.append(
            f"{JAAS_FILE} is ignored: {EXTENSIONS} names no extension, and REST asks for no password."
        )
    own = {name: value for name, value in raw.items() if name in own_client_keys()}
    found += [
        f"{name} does nothing for the worker's own Kafka clients: they are not Java."
        for name in unknown_to_librdkafka(own)
    ]
    for name in raw:
        if name in known:
            continue
        why = elsewhere.get(name)
        if why is None and nearest(name, known) == ".":
            why = next((elsewhere[at] for at in elsewhere if at[-1] == "." and name.startswith(at)), None)
        if why is not None:
            found.append(f"{name} is ignored: {why}.")
        elif name.startswith((*PREFIXES, *prefixes)):
            continue
        elif name in client_names():
            found.append(f"{name} is ignored: it needs a client's prefix, such as consumer.{name}.")
        else:
            found.append(f"{name} is ignored: no such configuration is known{nearest(name, known)}")
    return found


def _worker_id(url: str) -> WorkerId:
    return WorkerId(url.partition("://")[2].removesuffix("/"))
